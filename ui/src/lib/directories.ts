//! Paths of this computer: how to show and join them.

/** Writes out characters that are invisible or change the reading direction: a name may contain any character but a slash. */
export const shown = (name: string): string =>
  name.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu, (one) => `\\u{${one.codePointAt(0)?.toString(16) ?? ''}}`);

/** The path of `name` in a directory. */
export const below = (directory: string, name: string): string =>
  directory.endsWith('/') ? directory + name : `${directory}/${name}`;

/** Whether file managers hide it. */
export const isHidden = (name: string): boolean => name.startsWith('.');

/** Whether a directory can have this name: one part of a path, in visible characters. */
export const validDirectory = (name: string): boolean =>
  name !== '' &&
  name !== '.' &&
  name !== '..' &&
  !/[/\p{Cc}]/u.test(name) &&
  new TextEncoder().encode(name).length <= 255;
