import { describe, expect, it } from 'vitest';
import { Client } from '../src/backend/client';
import { openBoth } from '../src/lib/forks';
import { FakeBackend, refused } from './fake';

const opened = (fake: FakeBackend) =>
  fake.asked.filter(({ what }) => what.endsWith('/open')).map(({ what, body }) => [what.split('/')[3], body]);

describe('two versions that are both kept', () => {
  it('are both open in the end', async () => {
    const fake = new FakeBackend({
      'GET /v1/drives/work': () => ({ mountpoint: null }),
      'POST /v1/drives/work/open': () => ({}),
      'POST /v1/drives/kept/open': () => ({}),
    });
    await openBoth(new Client(fake), 'work', 'kept', '/m');
    expect(opened(fake).sort()).toEqual([
      ['kept', {}],
      ['work', { at: '/m' }],
    ]);
  });

  it('are open where one is held elsewhere, or open already', async () => {
    const fake = new FakeBackend({
      'GET /v1/drives/work': () => ({ mountpoint: null }),
      'POST /v1/drives/work/open': (body) => {
        if (!(body as { read_only?: boolean }).read_only) throw refused('held');
        return {};
      },
      'POST /v1/drives/kept/open': () => ({}),
    });
    await openBoth(new Client(fake), 'work', 'kept', null);
    expect(opened(fake)).toContainEqual(['work', { read_only: true }]);
    fake.asked = [];
    fake.answers['GET /v1/drives/work'] = () => ({ mountpoint: '/m' });
    await openBoth(new Client(fake), 'work', 'kept', null);
    expect(opened(fake)).toEqual([['kept', {}]]);
  });

  it('do not keep each other from being opened', async () => {
    const fake = new FakeBackend({
      'GET /v1/drives/work': () => ({ mountpoint: null }),
      'POST /v1/drives/work/open': () => {
        throw refused('offline', 'The store is away.');
      },
      'POST /v1/drives/kept/open': () => ({}),
    });
    await expect(openBoth(new Client(fake), 'work', 'kept', null)).rejects.toThrow();
    expect(opened(fake)).toContainEqual(['kept', {}]);
  });
});
