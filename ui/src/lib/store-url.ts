//! The address of a store, made from what a person typed into the wizard.

import type { StoreCredentials } from '../backend/shapes';
import type { Draft, Typed } from './draft';
import { t } from './text';

/** Whether it contains a user, and perhaps a password: these have their own fields and are stored elsewhere. */
export const namesUser = (text: string): boolean => /^\s*(\w+:\/\/)?[^/?#]*@/.test(text);

/** Whether others can read what is sent there on the way, even a password: without TLS, and to another computer. */
export const inTheClear = (text: string): boolean =>
  /^\s*http:\/\/(?!(localhost|127[.\d]+|\[::1\])([:/?#]|\s*$))./i.test(text);

/** The address of the server, as it was typed; empty if there is none. */
export const serverOf = (draft: Draft): string =>
  draft.kind === 's3' ? (draft.provider === 'other' ? draft.endpoint : '') : draft.kind === 'dav' ? draft.address : '';
export const isClear = (draft: Draft): boolean => inTheClear(serverOf(draft));

/** Whether the typed text makes no sense. Empty text is missing, not wrong. */
export const wrongAddress = (text: string): boolean =>
  namesUser(text) || /\S\s+\S/.test(text) || (text.trim() !== '' && !URL.canParse(withScheme(text.trim())));
export const wrongBucket = (text: string): boolean => /[\s/?#]/.test(text.trim());
export const wrongPath = (text: string): boolean => /^[^/]/.test(text.trim());
/** The same for a path that may begin with `~/`: the daemon knows whose home that is. */
export const wrongPlace = (text: string): boolean => !text.trim().startsWith('~/') && wrongPath(text);

/** The address of the drive's store; `undefined` while a part of it is missing or wrong. */
export function storeUrl(draft: Draft): string | undefined {
  switch (draft.kind) {
    case 's3': {
      const bucket = draft.bucket.trim();
      if (bucket === '' || wrongBucket(bucket)) return undefined;
      if (draft.provider === 'other' && (draft.endpoint.trim() === '' || wrongAddress(draft.endpoint)))
        return undefined;
      const query = new URLSearchParams();
      if (draft.provider === 'other') query.set('endpoint', withScheme(draft.endpoint.trim()));
      if (draft.region.trim() !== '') query.set('region', draft.region.trim());
      else if (draft.provider === 'other') query.set('region', 'us-east-1');
      const prefix = path(draft.prefix);
      const asked = query.toString();
      return `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}${asked === '' ? '' : `?${asked}`}`;
    }
    case 'dav': {
      const address = draft.address.trim();
      return address === '' || wrongAddress(address) ? undefined : withScheme(address);
    }
    case 'file': {
      const directory = draft.directory.trim();
      // As a path: in a file URL, per cent signs would have another meaning.
      if (directory.startsWith('~/') && directory.length > 2) return directory;
      return directory.startsWith('/') && directory.length > 1 ? `/${parts(directory).join('/')}` : undefined;
    }
    default:
      return undefined;
  }
}

function withScheme(address: string): string {
  return /^\w+:\/\//.test(address) ? address : `https://${address}`;
}

/** The parts of a path. */
function parts(text: string): string[] {
  return text
    .trim()
    .split('/')
    .filter((part) => part !== '');
}

/** A path in the form that a URL needs. */
function path(text: string): string {
  return parts(text).map(encodeURIComponent).join('/');
}

/** The credentials for the store; `undefined` if nothing was typed, so that saved ones are used. */
export function credentials(draft: Draft, typed: Typed): StoreCredentials | undefined {
  if (draft.kind === 's3' && typed.secretKey !== '') {
    return { kind: 's3', access_key: draft.accessKey.trim(), secret_key: typed.secretKey.trim() };
  }
  if (draft.kind === 'dav' && draft.login === 'token' && typed.token !== '') {
    return { kind: 'bearer', token: typed.token.trim() };
  }
  if (draft.kind === 'dav' && draft.login === 'password' && typed.password !== '') {
    return { kind: 'password', user: draft.user.trim(), password: typed.password };
  }
  return undefined;
}

/** The last part of a store's path, or its bucket: what most people would call a folder there. */
export function lastPart(url: string): string {
  return decoded(parts(url.replace(/\?.*$/, '').replace(/^\w+:\/\//, '')).at(-1) ?? '');
}

/** Whether a login for one address is valid for the other: a bucket of one server, or a path on one WebDAV server. */
export function sameLogin(login: string, store: string): boolean {
  if (login.startsWith('s3://') !== store.startsWith('s3://')) return false;
  const path = (address: string) => `${address.replace(/\/?(\?.*)?$/, '')}/`;
  if (!login.startsWith('s3://')) return path(store).startsWith(path(login));
  const place = (address: string) => {
    const [, bucket = '', query = ''] = /^s3:\/\/([^/?]+)[^?]*\??(.*)$/.exec(address) ?? [];
    return `${bucket} ${new URLSearchParams(query).get('endpoint') ?? ''}`;
  };
  return place(login) === place(store);
}

/** A store's name for people: the bucket or path, and the server if it is not the usual one. */
export function storeName(store: string): string {
  if (store.startsWith('file://') || /^[/~]/.test(store)) return store;
  if (!store.startsWith('s3://')) return decoded(store.replace(/\?.*$/, ''));
  const [address = '', query = ''] = store.split(/\?(.*)/);
  const endpoint = new URLSearchParams(query).get('endpoint')?.replace(/^https?:\/\//, '');
  return endpoint ? t('store.at', { store: decoded(address), server: endpoint }) : decoded(address);
}

/** An address as people read it; unchanged if it cannot be decoded. */
function decoded(address: string): string {
  try {
    return decodeURI(address);
  } catch {
    return address;
  }
}
