import { describe, expect, it } from "vitest";
import { isPublicAddress, isPublicHost } from "./address.ts";

describe("isPublicAddress", () => {
  it.each([
    ...["93.184.216.34", "8.8.8.8", "100.63.255.255", "172.32.0.1", "198.17.255.255", "198.20.0.1"],
    ...["2606:2800:220:1:248:1893:25c8:1946", "2001:4860:4860::8888", "2a00:1450::1"],
  ])("accepts %s", (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  it.each([
    ["loopback", "127.0.0.1"],
    ["loopback", "127.255.255.254"],
    ["this network", "0.0.0.0"],
    ["private", "10.1.2.3"],
    ["private", "172.16.0.1"],
    ["private", "192.168.1.1"],
    ["carrier-grade NAT", "100.64.0.1"],
    ["cloud metadata", "169.254.169.254"],
    ["benchmark", "198.18.0.1"],
    ["documentation", "203.0.113.9"],
    ["multicast", "224.0.0.1"],
    ["broadcast", "255.255.255.255"],
    ["unspecified", "::"],
    ["loopback", "::1"],
    ["IPv4-compatible", "::7f00:1"],
    ["IPv4-mapped", "::ffff:127.0.0.1"],
    ["IPv4-mapped", "::ffff:a00:1"],
    ["NAT64", "64:ff9b::7f00:1"],
    ["local NAT64", "64:ff9b:1::7f00:1"],
    ["6to4", "2002:7f00:1::"],
    ["Teredo", "2001:0:7f00:1::"],
    ["benchmark", "2001:2::1"],
    ["documentation", "2001:db8::1"],
    ["unique local", "fd00::1"],
    ["link-local", "fe80::1"],
    ["site-local", "fec0::1"],
    ["multicast", "ff02::1"],
    ["not an address", "nonsense"],
    ["not an address", "api.localise.com"],
  ])("refuses %s: %s", (_, address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
});

describe("isPublicHost", () => {
  it.each(["api.localise.com", "localhost.example.com", "example.com", "93.184.216.34", "[2606:2800::1]"])(
    "accepts %s",
    (host) => {
      expect(isPublicHost(host)).toBe(true);
    },
  );

  it.each([
    ...["localhost", "LOCALHOST", "a.localhost", "localhost.", "printer.local", "metadata.google.internal"],
    ...["127.0.0.1", "[::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "198.18.0.1"],
  ])("refuses %s", (host) => {
    expect(isPublicHost(host)).toBe(false);
  });
});
