import { describe, expect, it, vi } from 'vitest';
import { FakeBackend, folder, refused } from './fake';

const backend = new FakeBackend();
vi.mock('../src/app', async () => {
  const { Client } = await import('../src/backend/client');
  const { Live } = await import('../src/lib/live.svelte');
  return { backend, client: new Client(backend), live: new Live(backend) };
});
const { PlaceActions } = await import('../src/lib/actions.svelte');
const { placeOfFolder } = await import('../src/lib/places');

const asked = () => backend.asked.map(({ what }) => what).filter((what) => what.startsWith('POST'));

describe('the buttons of a folder', () => {
  it('ask for the folder, and never for a drive of that name', async () => {
    backend.asked = [];
    for (const rest of ['', '/a%20b/close', '/a%20b/pause', '/a%20b/resume', '/a%20b/sync'])
      backend.answers[`POST /v1/folders${rest}`] = () => folder('a b');
    const actions = new PlaceActions(() => ({ kind: 'folder', name: 'a b' }));
    await actions.open();
    await actions.pause();
    await actions.resume();
    await actions.upload();
    await actions.close();
    expect(actions.doing.failure).toBeNull();
    expect(asked()).toEqual([
      'POST /v1/folders',
      'POST /v1/folders/a%20b/pause',
      'POST /v1/folders/a%20b/resume',
      'POST /v1/folders/a%20b/sync',
      'POST /v1/folders/a%20b/close',
    ]);
    expect(backend.asked[0]?.body).toEqual({ folder: 'a b' });
  });

  it('ask before closing leaves changes only here', () => {
    const actions = new PlaceActions(() => ({ kind: 'folder', name: 'docs' }));
    actions.askToClose(placeOfFolder(folder('docs', { dirty_bytes: 5 })));
    expect(actions.closing).toBe(true);
  });

  it('work while everything is being uploaded, and a failure of that is shown', async () => {
    let fail: (why: unknown) => void = () => undefined;
    backend.answers['POST /v1/folders/docs/sync'] = () => new Promise((_, no) => (fail = no));
    backend.answers['POST /v1/folders/docs/pause'] = () => folder('docs');
    const actions = new PlaceActions(() => ({ kind: 'folder', name: 'docs' }));
    const uploading = actions.upload();
    backend.asked = [];
    void actions.upload();
    await actions.pause();
    expect(asked()).toEqual(['POST /v1/folders/docs/pause']);
    fail(refused('paused', 'Uploads are paused.'));
    await uploading;
    expect(actions.doing.failure?.message).toBe('Uploads are paused.');
  });
});
