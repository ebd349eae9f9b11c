import { describe, expect, it } from 'vitest';
import { emptyDraft, load, nothingTyped, save, validName, type Draft } from '../src/lib/draft';
import { Memory } from './setup';
import { credentials, inTheClear, sameLogin, storeName, storeUrl } from '../src/lib/store-url';

const draft = (changes: Partial<Draft>): Draft => ({ ...emptyDraft(), ...changes });

describe('the address of a store', () => {
  it('is made of what was typed', () => {
    expect(storeUrl(draft({ kind: 's3', bucket: 'b' }))).toBe('s3://b');
    expect(storeUrl(draft({ kind: 's3', bucket: ' b ', prefix: '/my photos/', region: 'eu-central-1' }))).toBe(
      's3://b/my%20photos?region=eu-central-1',
    );
    expect(
      storeUrl(draft({ kind: 's3', provider: 'other', endpoint: 's3.example.org', bucket: 'b', prefix: 'p' })),
    ).toBe('s3://b/p?endpoint=https%3A%2F%2Fs3.example.org&region=us-east-1');
    expect(storeUrl(draft({ kind: 's3', provider: 'other', endpoint: 'http://127.0.0.1:7070', bucket: 'b' }))).toBe(
      's3://b?endpoint=http%3A%2F%2F127.0.0.1%3A7070&region=us-east-1',
    );
    expect(storeUrl(draft({ kind: 'dav', address: 'cloud.example.org/dav/' }))).toBe('https://cloud.example.org/dav/');
    expect(storeUrl(draft({ kind: 'file', directory: '/media/my disk/h' }))).toBe('/media/my disk/h');
    expect(storeUrl(draft({ kind: 'file', directory: '/100%25/a#b/' }))).toBe('/100%25/a#b');
    expect(storeUrl(draft({ kind: 'file', directory: '~/disk' }))).toBe('~/disk');
  });

  it('is read without what machines need', () => {
    expect(storeName('s3://b/my%20p?endpoint=http%3A%2F%2Fh%3A80&region=x')).toBe('s3://b/my p at h:80');
    expect(storeName('s3://b/p?region=x')).toBe('s3://b/p');
    expect(storeName('https://h/dav/x?ca=/a')).toBe('https://h/dav/x');
    expect(storeName('file:///a%20b')).toBe('file:///a%20b');
    expect(storeName('file:///100%')).toBe('file:///100%');
    expect(storeName('s3://b/100%?endpoint=http://h')).toBe('s3://b/100% at h');
    expect(storeName('https://h/100%?ca=/a')).toBe('https://h/100%');
  });

  it('is none while something is missing', () => {
    for (const missing of [
      {},
      { kind: 's3' as const },
      { kind: 's3' as const, provider: 'other' as const, bucket: 'b' },
      { kind: 'dav' as const },
      { kind: 'file' as const, directory: 'relative' },
      { kind: 'file' as const, directory: '/' },
    ]) {
      expect(storeUrl(draft(missing))).toBeUndefined();
    }
  });
});

describe('a user in an address', () => {
  it('is wrong, and goes into no draft', () => {
    for (const address of ['https://me:secret@h/dav', 'secret@h', ' http://secret@h:80/']) {
      expect(storeUrl(draft({ kind: 'dav', address })), address).toBeUndefined();
      let kept = '';
      save({ setItem: (_, text) => (kept = text) }, draft({ kind: 'dav', address, user: 'me@example.org' }));
      expect(kept).toContain('me@example.org');
      expect(kept).not.toContain('secret');
    }
    expect(storeUrl(draft({ kind: 'dav', address: 'https://h/files/me@work/' }))).toBe('https://h/files/me@work/');
  });
});

describe('an address', () => {
  it('is warned of where what is sent there can be read on the way', () => {
    for (const clear of [
      'http://nas.example',
      ' HTTP://10.0.0.2:9000/b',
      'http://localhost.example',
      'http://127.evil.example',
    ])
      expect(inTheClear(clear), clear).toBe(true);
    for (const well of [
      '',
      'http://',
      'nas.example',
      'https://h',
      'http://localhost:9000',
      'http://127.0.0.1/dav',
      'http://[::1]:80',
    ])
      expect(inTheClear(well), well).toBe(false);
  });
});

describe('credentials', () => {
  it('are those of the kind of store, or none', () => {
    const typed = { ...nothingTyped(), secretKey: ' s ', password: ' p ', token: 't' };
    expect(credentials(draft({ kind: 's3', accessKey: 'a ' }), typed)).toEqual({
      kind: 's3',
      access_key: 'a',
      secret_key: 's',
    });
    expect(credentials(draft({ kind: 'dav', user: 'u' }), typed)).toEqual({
      kind: 'password',
      user: 'u',
      password: ' p ',
    });
    expect(credentials(draft({ kind: 'dav', login: 'token' }), typed)).toEqual({ kind: 'bearer', token: 't' });
    expect(credentials(draft({ kind: 's3', accessKey: 'a' }), nothingTyped())).toBeUndefined();
    expect(credentials(draft({ kind: 'file' }), typed)).toBeUndefined();
  });

  it('are found where they are kept for the same place', () => {
    expect(sameLogin('s3://b?endpoint=http://h', 's3://b/p?endpoint=http%3A%2F%2Fh&region=x')).toBe(true);
    expect(sameLogin('s3://b', 's3://b/p?endpoint=http%3A%2F%2Fh')).toBe(false);
    expect(sameLogin('s3://b', 's3://bb')).toBe(false);
    expect(sameLogin('https://h/dav/', 'https://h/dav/photos')).toBe(true);
    expect(sameLogin('https://h/dav?ca=x', 'https://h/dav')).toBe(true);
    expect(sameLogin('https://h/dav', 'https://h/david')).toBe(false);
    expect(sameLogin('https://h/dav', 's3://b')).toBe(false);
  });
});

describe('a draft', () => {
  it('outlives the page, without secrets', () => {
    const storage = new Memory();
    const written = {
      ...draft({ kind: 's3', bucket: 'b', accessKey: 'AK', step: 3 }),
      ...nothingTyped(),
      secretKey: 'hunter2',
    };
    save(storage, written);
    expect([...storage.kept.values()].join()).not.toContain('hunter2');
    expect(load(storage)).toEqual(draft({ kind: 's3', bucket: 'b', accessKey: 'AK', step: 3 }));
  });

  it('that cannot be read is a new one', () => {
    const storage = new Memory();
    expect(load(storage)).toEqual(emptyDraft());
    storage.setItem('holdall.draft', '{');
    expect(load(storage)).toEqual(emptyDraft());
    storage.setItem('holdall.draft', '{"step": "two", "bucket": 7, "name": "n", "unknown": 1}');
    expect(load(storage)).toEqual(draft({ name: 'n' }));
  });

  it('has a name that a drive may have', () => {
    expect(['work', 'a.b-c_1', 'X'.repeat(64)].every(validName)).toBe(true);
    expect(['', '-a', '.', 'a/b', 'a b', 'ä', 'x'.repeat(65)].some(validName)).toBe(false);
  });
});
