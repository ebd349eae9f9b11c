//! What has been typed into the wizard so far. It outlives the page; secrets do not: they are in [`Typed`], which is never stored.

import { namesUser } from './store-url';

export interface Draft {
  step: number;
  kind: 's3' | 'dav' | 'file' | '';
  provider: 'aws' | 'other';
  endpoint: string;
  bucket: string;
  prefix: string;
  region: string;
  accessKey: string;
  address: string;
  login: 'password' | 'token';
  user: string;
  directory: string;
  existing: boolean;
  name: string;
  size: string;
  encrypt: boolean;
  unlockBy: 'passphrase' | 'recovery';
  mountpoint: string;
  cache: string;
  acceptWeak: boolean;
  /** Puts the drive next to the other files of its place, and not into its own directory. */
  beside: boolean;
}

export interface Typed {
  secretKey: string;
  password: string;
  token: string;
  passphrase: string;
  again: string;
  recovery: string;
}

export const nothingTyped = (): Typed => ({
  secretKey: '',
  password: '',
  token: '',
  passphrase: '',
  again: '',
  recovery: '',
});

/** The daemon refuses a passphrase with fewer characters. */
export const shortPassphrase = (passphrase: string) => [...passphrase].length < 8;

export const emptyDraft = (): Draft => ({
  step: 0,
  kind: '',
  provider: 'aws',
  endpoint: '',
  bucket: '',
  prefix: '',
  region: '',
  accessKey: '',
  address: '',
  login: 'password',
  user: '',
  directory: '',
  existing: false,
  name: '',
  size: '1 TiB',
  encrypt: true,
  unlockBy: 'passphrase',
  mountpoint: '',
  cache: '',
  acceptWeak: false,
  beside: false,
});

const KEY = 'holdall.draft';

export function load(storage: Pick<Storage, 'getItem'>): Draft {
  const draft = emptyDraft();
  try {
    const kept = JSON.parse(storage.getItem(KEY) ?? '{}') as Record<string, unknown>;
    // Take only known fields of the right type: an older version may have written this.
    for (const [name, value] of Object.entries(draft)) {
      if (typeof kept[name] === typeof value) Object.assign(draft, { [name]: kept[name] });
    }
  } catch {
    return emptyDraft();
  }
  return draft;
}

export function save(storage: Pick<Storage, 'setItem'>, draft: Draft): void {
  try {
    const known = Object.keys(emptyDraft());
    // No password is kept, not even one inside an address.
    const isSafe = (name: string, value: unknown) =>
      !['address', 'endpoint'].includes(name) || !namesUser(String(value));
    const kept = Object.entries(draft).filter(([name, value]) => known.includes(name) && isSafe(name, value));
    storage.setItem(KEY, JSON.stringify(Object.fromEntries(kept)));
  } catch {
    // Then it lasts only as long as the page.
  }
}

export function forget(storage: Pick<Storage, 'removeItem'>): void {
  try {
    storage.removeItem(KEY);
  } catch {
    // Then nothing was kept either.
  }
}

/** A valid name for a drive that has another name elsewhere. */
export function nameFrom(text: string): string {
  return text
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[._-]+|-+$/g, '')
    .slice(0, 64);
}

/** Whether a drive can have this name: a part of a path, as the daemon demands. */
export function validName(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name);
}
