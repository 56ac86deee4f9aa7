import { writeFileSync } from "node:fs";

// A seccomp filter in classic BPF, which bwrap loads (`--seccomp`). It denies what agents do not need and what has been
// the way out of containers: the kernel's rarely used interfaces. Namespaces and the missing capabilities do the rest.

/** System call numbers of x64 and arm64. Undefined: the architecture does not have the call. */
const denied: Record<string, [x64: number, arm64: number | undefined]> = {
  // Mounts
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  setns: [308, 268],
  open_by_handle_at: [304, 265],
  // Keys, tracing and programs in the kernel
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  // The machine
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  adjtimex: [159, 171],
  syslog: [103, 116],
  vhangup: [153, 58],
  iopl: [172, undefined],
  ioperm: [173, undefined],
  modify_ldt: [154, undefined],
  lookup_dcookie: [212, 18],
};

const architectures = {
  x64: { audit: 0xc000003e, clone: 56, clone3: 435, unshare: 272 },
  arm64: { audit: 0xc00000b7, clone: 220, clone3: 435, unshare: 97 },
} as const;

const load = 0x20;
const jumpIfEqual = 0x15;
const jumpIfAtLeast = 0x35;
const jumpIfAnyBit = 0x45;
const give = 0x06;
const numberOffset = 0;
const architectureOffset = 4;
const firstArgumentOffset = 16;
const allow = 0x7fff0000;
const fail = 0x00050000;
const eperm = 1;
const enosys = 38;
const firstX32Call = 0x40000000;

const newUser = 0x10000000;
// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. NEWTIME is a signal number in clone's flags.
const namespaceFlags = 0x7e020000;
const newTime = 0x80;

interface Instruction {
  code: number;
  value: number;
  /** Labels to go to. The next instruction if undefined. */
  yes?: string;
  no?: string;
  label?: string;
}

/** Undefined for an architecture without a filter. */
export function seccompFilter(arch: string = process.arch): Buffer | undefined {
  if (arch !== "x64" && arch !== "arm64") return undefined;
  const { audit, clone, clone3, unshare } = architectures[arch];
  const numbers = Object.values(denied).flatMap(([x64, arm64]) => (arch === "x64" ? [x64] : (arm64 ?? [])));
  return assemble([
    { code: load, value: architectureOffset },
    // Programs of another architecture have other numbers.
    { code: jumpIfEqual, value: audit, no: "missing" },
    { code: load, value: numberOffset },
    { code: jumpIfAtLeast, value: firstX32Call, yes: "missing" },
    // Its flags are in memory, which a filter cannot read. libc uses clone instead.
    { code: jumpIfEqual, value: clone3, yes: "missing" },
    { code: jumpIfEqual, value: clone, yes: "clone" },
    { code: jumpIfEqual, value: unshare, yes: "unshare" },
    ...numbers.map((value): Instruction => ({ code: jumpIfEqual, value, yes: "denied" })),
    { code: give, value: allow, label: "allowed" },
    { code: give, value: fail | eperm, label: "denied" },
    { code: give, value: fail | enosys, label: "missing" },
    { code: load, value: firstArgumentOffset, label: "clone" },
    { code: jumpIfAnyBit, value: namespaceFlags, yes: "clone denied" },
    { code: give, value: allow },
    { code: give, value: fail | eperm, label: "clone denied" },
    // The setup needs one user namespace. After it, the namespace's own limit (setup.sh) allows no other.
    { code: load, value: firstArgumentOffset, label: "unshare" },
    { code: jumpIfEqual, value: newUser, yes: "unshare allowed" },
    { code: jumpIfAnyBit, value: namespaceFlags | newTime, yes: "unshare denied" },
    { code: give, value: allow, label: "unshare allowed" },
    { code: give, value: fail | eperm, label: "unshare denied" },
  ]);
}

/** Writes the filter of this machine, and returns whether there is one. */
export function writeSeccompFilter(file: string): boolean {
  const filter = seccompFilter();
  if (filter) writeFileSync(file, filter);
  return filter !== undefined;
}

/** `struct sock_filter`: u16 code, u8 and u8 for the jumps, u32 value. */
function assemble(program: readonly Instruction[]): Buffer {
  const positions = new Map(program.flatMap(({ label }, index) => (label ? [[label, index] as const] : [])));
  const bytes = Buffer.alloc(program.length * 8);
  for (const [index, { code, value, yes, no }] of program.entries()) {
    const jump = (label: string | undefined) =>
      label === undefined ? 0 : (positions.get(label) ?? Number.NaN) - index - 1;
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(jump(yes), index * 8 + 2);
    bytes.writeUInt8(jump(no), index * 8 + 3);
    bytes.writeUInt32LE(value, index * 8 + 4);
  }
  return bytes;
}
