import "reflect-metadata";
import { randomBytes, webcrypto } from "node:crypto";
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { createSecureContext, rootCertificates, type SecureContext } from "node:tls";
import * as x509 from "@peculiar/x509";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const dayMs = 24 * 60 * 60_000;
const systemBundles = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/** Signs certificates for the hosts whose requests the gateway has to read. Its key never leaves this process. */
export interface Authority {
  certificate: string;
  contextFor(host: string): Promise<SecureContext>;
}

/** One per sandbox: a sandbox trusts only its own. */
export async function createAuthority(): Promise<Authority> {
  const keys = await newKeys();
  const name = "CN=Sandbox network policy";
  const authority = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity(),
    name,
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  const certificate = authority.toString("pem");
  const contexts = new Map<string, Promise<SecureContext>>();

  async function issue(host: string): Promise<SecureContext> {
    const leaf = await newKeys();
    const issued = await x509.X509CertificateGenerator.create({
      ...validity(),
      subject: "CN=Sandbox network policy (host)",
      issuer: name,
      publicKey: leaf.publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: algorithm,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        new x509.SubjectAlternativeNameExtension([{ type: isIP(host) ? "ip" : "dns", value: host }]),
        await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    const key = x509.PemConverter.encode(
      await webcrypto.subtle.exportKey("pkcs8", leaf.privateKey),
      "PRIVATE KEY",
    );
    return createSecureContext({ key, cert: `${issued.toString("pem")}\n${certificate}` });
  }

  return {
    certificate,
    contextFor(host) {
      const context = contexts.get(host) ?? issue(host);
      contexts.set(host, context);
      return context;
    },
  };
}

/** The certificates that this machine trusts. */
export function systemCertificates(): string {
  for (const file of systemBundles) {
    try {
      return readFileSync(file, "utf8");
    } catch {
      // Another distribution.
    }
  }
  return rootCertificates.join("\n");
}

function validity() {
  const now = Date.now();
  const serial = randomBytes(8);
  // A positive number without leading zeros.
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  return {
    serialNumber: serial.toString("hex"),
    notBefore: new Date(now - dayMs),
    notAfter: new Date(now + 30 * dayMs),
  };
}

async function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, [
    "sign",
    "verify",
  ]) as Promise<webcrypto.CryptoKeyPair>;
}
