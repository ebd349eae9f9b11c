import { describe, expect, it } from 'vitest';
import { failureOf } from '../src/backend/backend';
import { Client } from '../src/backend/client';
import type { DriveStatus } from '../src/backend/shapes';
import { browse } from '../src/lib/browse';
import { FakeBackend, refused } from './fake';

const drive = (changes: Partial<DriveStatus> = {}) =>
  ({ name: 'work', state: 'Ready', mountpoint: '/m', attach: 'nbd', ...changes }) as DriveStatus;

/** Its store is away, or what is given besides is so. */
function away(again: () => unknown = () => ({ mountpoint: '/m' })) {
  return new FakeBackend({
    'POST /v1/drives/work/close': () => ({}),
    'POST /v1/drives/work/open': (body) => {
      if ((body as { snapshot?: string }).snapshot) throw refused('offline', 'The store is away.');
      return again();
    },
  });
}

const failed = async (fake: FakeBackend, of: DriveStatus) => {
  const failure = failureOf(await browse(new Client(fake), of, 'before').catch((error: unknown) => error));
  return [failure.message, failure.consequence];
};

describe('looking at a snapshot', () => {
  it('closes the drive for it', async () => {
    const fake = new FakeBackend({
      'POST /v1/drives/work/close': () => ({}),
      'POST /v1/drives/work/open': () => ({ mountpoint: '/s' }),
    });
    expect((await browse(new Client(fake), drive(), 'before')).mountpoint).toBe('/s');
    expect(fake.asked.map((one) => one.what)).toEqual(['POST /v1/drives/work/close', 'POST /v1/drives/work/open']);
  });

  it('opens the drive again where that fails, as it was, and says so', async () => {
    const fake = away();
    expect(await failed(fake, drive())).toEqual(['The store is away.', 'work is open again, as it was.']);
    expect(fake.asked.at(-1)).toEqual({
      what: 'POST /v1/drives/work/open',
      body: { at: '/m', read_only: false, attach: 'nbd' },
    });
  });

  it('says that the drive is closed where it cannot be opened again', async () => {
    const busy = () => {
      throw refused('failed', 'The folder is not empty.');
    };
    expect(await failed(away(busy), drive())).toEqual([
      'The store is away.',
      'work was closed for this, and could not be opened again: The folder is not empty.',
    ]);
  });

  it('leaves a drive closed that was', async () => {
    const fake = away();
    const closed = drive({ state: 'Closed', mountpoint: null });
    expect(await failed(fake, closed)).toEqual(['The store is away.', 'Nothing was changed.']);
    expect(fake.asked.length).toBe(1);
  });
});
