/**
 * A path as commands see it. Commands start in /vercel/sandbox. In a sandbox that is only a directory, as on a machine
 * without isolation, an absolute path is right for the file API but not for programs; a relative one is right for both.
 */
export function fromWorkingDirectory(path: string): string {
  return `../..${path}`;
}
