import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Refused } from '../src/backend/backend';
import { Client } from '../src/backend/client';
import { FakeBackend, refused } from './fake';

const backend = vi.hoisted(() => ({ current: undefined as unknown }));
vi.mock('../src/app', () => ({
  get client() {
    return new Client(backend.current as FakeBackend);
  },
  live: { overview: null },
}));
const { Wizard } = await import('../src/lib/wizard.svelte');

const tested = {
  store: 's',
  store_mode: 'swap',
  usable: true,
  findings: [],
  reasons: [],
  has_drive: false,
  others: [],
  instead: null,
};
const created = { uuid: 'u', store_mode: 'swap', recovery_key: 'aaaa-bbbb-cccc' };

describe('the wizard', () => {
  let fake: FakeBackend;

  beforeEach(() => {
    localStorage.removeItem('holdall.draft');
    fake = new FakeBackend({
      'GET /v1/stores': () => [],
      'POST /v1/stores/test': () => tested,
      'POST /v1/drives': () => created,
      'POST /v1/drives/work/open': () => ({ mountpoint: '/m' }),
    });
    backend.current = fake;
  });

  async function filled() {
    const wizard = new Wizard();
    Object.assign(wizard.draft, { kind: 's3', bucket: 'b', accessKey: 'AK', name: 'work', size: '1 GiB' });
    Object.assign(wizard.typed, { secretKey: 's', passphrase: 'tangerine', again: 'tangerine' });
    await wizard.test();
    return wizard;
  }

  it('goes on only with what was tested as it is now', async () => {
    const wizard = await filled();
    expect(wizard.complete('store')).toBe(true);
    wizard.typed.secretKey = 'another';
    expect(wizard.complete('store')).toBe(false);
    wizard.typed.secretKey = 's';
    expect(wizard.complete('store')).toBe(true);
    expect(wizard.complete('summary')).toBe(true);
    wizard.typed.again = 'p';
    expect(wizard.complete('summary')).toBe(false);
  });

  it('asks for a word where a store promises little', async () => {
    fake.answers['POST /v1/stores/test'] = () => ({ ...tested, store_mode: 'none' });
    const wizard = await filled();
    expect(wizard.complete('store')).toBe(false);
    wizard.draft.acceptWeak = true;
    expect(wizard.complete('store')).toBe(true);
    await wizard.make();
    expect(fake.asked.find((one) => one.what === 'POST /v1/drives')?.body).toMatchObject({ weakest: 'none' });
  });

  it('mounts nothing before the recovery key is written down, and forgets what was typed', async () => {
    const wizard = await filled();
    wizard.keep();
    await wizard.make();
    expect(wizard.stage).toBe('recovery');
    expect(fake.asked.map((one) => one.what)).not.toContain('POST /v1/drives/work/open');
    expect([wizard.typed.passphrase, wizard.typed.secretKey]).toEqual(['', '']);
    expect(localStorage.getItem('holdall.draft')).toBeNull();
    // Nothing writes the draft anew.
    wizard.keep();
    expect(localStorage.getItem('holdall.draft')).toBeNull();
    await wizard.mount();
    expect([wizard.stage, wizard.opened?.mountpoint]).toEqual(['done', '/m']);
  });

  it('is found again until its recovery key is written down', async () => {
    const unload = () => !dispatchEvent(new Event('beforeunload', { cancelable: true }));
    let answer: (made: typeof created) => void = () => undefined;
    fake.answers['POST /v1/drives'] = () => new Promise((made) => (answer = made));
    const wizard = await filled();
    expect([wizard.tells, unload()]).toEqual([false, false]);
    const making = wizard.make();
    // The key is on its way, and nobody looks.
    expect([wizard.stage, wizard.tells, unload(), Wizard.current() === wizard]).toEqual(['create', true, true, true]);
    answer(created);
    await making;
    expect([wizard.stage, wizard.tells, unload(), Wizard.current() === wizard]).toEqual(['recovery', true, true, true]);
    expect(wizard.created?.recovery_key).toBe('aaaa-bbbb-cccc');
    await wizard.mount();
    expect([wizard.tells, unload(), Wizard.current() === wizard]).toEqual([false, false, false]);
  });

  it('is not kept where no drive was made, and tells no key where there is none', async () => {
    const wizard = await filled();
    fake.answers['POST /v1/drives'] = () => {
      throw refused('offline');
    };
    await wizard.make();
    expect([wizard.tells, Wizard.current() === wizard]).toEqual([false, false]);
    fake.answers['POST /v1/drives'] = () => new Promise(() => undefined);
    wizard.draft.encrypt = false;
    void wizard.make();
    expect([wizard.stage, wizard.tells]).toEqual(['create', false]);
  });

  it('tells the step that failed, and does not make the drive twice', async () => {
    const wizard = await filled();
    let away = true;
    fake.answers['POST /v1/drives'] = () => ({ ...created, recovery_key: undefined });
    fake.answers['POST /v1/drives/work/open'] = () => {
      if (away) throw refused('offline');
      return { mountpoint: '/m' };
    };
    await wizard.make();
    expect([wizard.failed?.stage, wizard.failed?.failure.code]).toEqual(['open', 'offline']);
    away = false;
    await wizard.again();
    expect(wizard.stage).toBe('done');
    expect(fake.asked.filter((one) => one.what === 'POST /v1/drives').length).toBe(1);
  });

  it('leads back to where what was wrong is typed', async () => {
    for (const [code, step] of [
      ['passphrase_wrong', 'protection'],
      ['exists', 'drive'],
      ['credentials', 'store'],
      ['full', 'summary'],
    ] as const) {
      const wizard = await filled();
      fake.answers['POST /v1/drives'] = () => {
        throw refused(code);
      };
      await wizard.make();
      expect(wizard.failed?.stage).toBe('create');
      wizard.change();
      expect([wizard.step, wizard.stage]).toEqual([step, null]);
    }
  });

  const there = (uuid: string, changes = {}) => ({
    uuid,
    name: uuid,
    is_fork: false,
    held: false,
    current: { device: 'desk', committed_at: '2026-11-20T10:00:00Z', size_bytes: 1 },
    ...changes,
  });

  async function existing(...found: object[]) {
    const wizard = await filled();
    wizard.draft.existing = true;
    fake.answers['POST /v1/stores/drives'] = () => found;
    fake.answers['POST /v1/drives/add'] = () => created;
    expect([wizard.complete('drive'), wizard.complete('protection')]).toEqual([true, false]);
    await wizard.find();
    return wizard;
  }

  it('takes the only drive that a store has, under its own name', async () => {
    const wizard = await existing(there('photos'));
    expect([wizard.chosen, wizard.draft.name, wizard.complete('protection')]).toEqual(['photos', 'photos', true]);
    await wizard.make();
    expect(fake.asked.find((one) => one.what === 'POST /v1/drives/add')?.body).toMatchObject({
      name: 'photos',
      drive: 'photos',
      secrets: { passphrase: 'tangerine' },
    });
  });

  it('asks which one it is to be where a store has several', async () => {
    const fork = there('u', { name: 'photos (fork from desk, 2026-11-20)', is_fork: true });
    const wizard = await existing(there('photos'), there('films'), there('here', { known_as: 'here' }), fork);
    expect([wizard.chosen, wizard.complete('protection')]).toEqual(['', false]);
    wizard.choose('films');
    expect([wizard.draft.name, wizard.complete('protection')]).toEqual(['films', true]);
    wizard.choose('u');
    expect(wizard.draft.name).toBe('photos-fork-from-desk-2026-11-20');
    // With another passphrase it would be another answer.
    wizard.typed.passphrase = 'q';
    expect([wizard.drives, wizard.complete('protection')]).toEqual([null, false]);
  });

  it('says at once what does not unlock a drive', async () => {
    const wizard = await existing();
    fake.answers['POST /v1/stores/drives'] = () => {
      throw refused('passphrase_wrong');
    };
    await wizard.find();
    expect([wizard.findFailure?.code, wizard.complete('protection')]).toEqual(['passphrase_wrong', false]);
  });

  it('takes a draft up where secrets are typed and the store is tried', () => {
    // A folder too: nothing is made in one that was not tried.
    for (const kind of ['s3', 'dav', 'file']) {
      localStorage.setItem('holdall.draft', JSON.stringify({ step: 5, kind }));
      const wizard = new Wizard();
      expect([wizard.step, wizard.resumed]).toEqual(['store', true]);
    }
  });

  it('offers a directory of its own where others have files', async () => {
    const instead = 's3://b/holdall';
    fake.answers['POST /v1/stores/test'] = () => ({ ...tested, others: ['letters/'], instead });
    const wizard = await filled();
    expect([wizard.target, wizard.complete('store')]).toEqual([instead, true]);
    await wizard.make();
    expect(fake.asked.find((one) => one.what === 'POST /v1/drives')?.body).toMatchObject({
      store: instead,
      beside_others: false,
    });
    const beside = await filled();
    beside.draft.beside = true;
    expect(beside.target).toBe('s3://b');
    await beside.make();
    expect(fake.asked.filter((one) => one.what === 'POST /v1/drives').at(-1)?.body).toMatchObject({
      store: 's3://b',
      beside_others: true,
    });
    // Another test is another decision.
    await beside.test();
    expect(beside.draft.beside).toBe(false);
  });

  it('uses the drive that is there already', async () => {
    fake.answers['POST /v1/stores/test'] = () => ({ ...tested, has_drive: true });
    const wizard = await filled();
    expect(wizard.draft.existing).toBe(true);
    wizard.draft.existing = false;
    expect(wizard.complete('drive')).toBe(false);
  });

  it('says of a wrong login where it was typed, until that is changed', async () => {
    fake.answers['POST /v1/stores/test'] = () => {
      throw refused('credentials', 'The store refused the credentials.');
    };
    const wizard = await filled();
    expect(wizard.wrongLogin).toBe(true);
    wizard.typed.secretKey = 'another';
    expect(wizard.wrongLogin).toBe(false);
  });

  it('goes back to where a wrong key was typed, and says so there', async () => {
    fake.answers['POST /v1/stores/drives'] = () => {
      throw refused('passphrase_wrong', 'The passphrase or recovery key is wrong.');
    };
    const wizard = await filled();
    wizard.draft.existing = true;
    await wizard.find();
    expect(wizard.wrongKey).toBe(true);
    wizard.typed.passphrase = 'another one';
    expect(wizard.wrongKey).toBe(false);
    // The same, should the store have changed its mind when the drive is added.
    fake.answers['POST /v1/drives/add'] = fake.answers['POST /v1/stores/drives'];
    await wizard.make();
    expect(wizard.failed?.failure.code).toBe('passphrase_wrong');
    wizard.change();
    expect([wizard.step, wizard.wrongKey]).toEqual(['protection', true]);
  });

  it('offers to look or to take over where the drive is open elsewhere', async () => {
    const holder = { device: 'the id of desk', name: 'desk', epoch: 7, last_commit_at: null };
    fake.answers['POST /v1/drives'] = () => ({ ...created, recovery_key: null });
    fake.answers['POST /v1/drives/work/open'] = (body) => {
      if ((body as { take_over?: boolean }).take_over) return { mountpoint: '/m' };
      const held = refused('held');
      throw new Refused({ ...held.failure, holder });
    };
    const wizard = await filled();
    await wizard.make();
    expect(wizard.held?.holder?.name).toBe('desk');
    await wizard.takeOver();
    expect(wizard.stage).toBe('done');
    expect(fake.asked.at(-1)?.body).toEqual({
      take_over: true,
      take_over_from: { device: 'the id of desk', epoch: 7 },
    });
  });
});
