//! Paths of this computer, as they are shown and put together.

/** What cannot be seen, or turns the reading direction round, is written out: a name may hold any character but a slash. */
export const shown = (name: string): string =>
  name.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu, (one) => `\\u{${one.codePointAt(0)?.toString(16) ?? ''}}`);

/** The path of `name` in a directory. */
export const below = (directory: string, name: string): string =>
  directory.endsWith('/') ? directory + name : `${directory}/${name}`;

/** Whether file managers leave it out. */
export const isHidden = (name: string): boolean => name.startsWith('.');

/** Whether a directory can be called so: one part of a path, of what can be seen. */
export const validDirectory = (name: string): boolean =>
  name !== '' &&
  name !== '.' &&
  name !== '..' &&
  !/[/\p{Cc}]/u.test(name) &&
  new TextEncoder().encode(name).length <= 255;
