// A fake daemon: the built pages, and an API with as many drives and rows as a test wants.

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';

const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

/** A number that looks random, and is the same each time. */
const some = (seed, below) => Math.floor(((Math.sin(seed * 12.9898) * 43758.5453 + 1e6) % 1) * below);

/** The longest values that a person may have. */
export const LONG = {
  store: 'https://cloud.a-rather-long-name-of-a-server.example.org/remote.php/dav/files/ann/Holdall/everything',
  drive: 'photographs-and-films-of-the-years-before-the-move-to-the-coast',
  computer: 'ann-and-bobs-desktop-computer-in-the-study.home.example.org',
  sentence: `Uploading failed: ${'/home/me/a/very/long/path'.repeat(6)} could not be read, and is tried again in 30 s.`,
};

const nameOf = (index, long) => (long && index === 0 ? LONG.drive : `drive-${String(index).padStart(3, '0')}`);

export function card(index, turn, long = false) {
  const busy = index % 3 === 0;
  const unsent = busy ? (1 + some(index + turn, 900)) * 1024 * 1024 : 0;
  const name = nameOf(index, long);
  return {
    name,
    kind: 'S3',
    state: busy ? { word: 'Syncing', tone: 'busy', icon: 'sync' } : { word: 'Ready', tone: 'safe', icon: 'check' },
    reason: null,
    consequence: null,
    steps: [],
    mountpoint: `/home/me/Holdall/${name}`,
    local_bytes: (1 + some(index, 90)) * 1024 ** 3,
    used_bytes: 120 * 1024 ** 3,
    size_bytes: 500 * 1024 ** 3,
    unsent_bytes: unsent,
    unsent_is_known: true,
    safe_since: '2026-11-20T10:00:00Z',
    up_rate: busy ? (1 + some(index + turn, 40)) * 1024 * 100 : 0,
    down_rate: 0,
    progress: busy ? { done_bytes: some(index + turn, 500) * 1e6, total_bytes: 5e8 } : null,
    eta_s: busy ? 60 + some(index + turn, 300) : null,
    actions: ['pause', 'close'],
  };
}

/** A folder with all that it can have. */
export function folder(index, turn, long = false) {
  const name = long ? `${LONG.drive}-${index}` : `folder-${String(index).padStart(3, '0')}`;
  const dirty = some(index + turn, 900) * 1e6;
  return {
    ...{ name, uuid: `f${index}`, url: LONG.store, kind: 'dav', state: 'Conflict', reason: null, advice: null },
    ...{ since: '2026-11-20T10:00:00Z', paused: false, needs_login: false, draining: false, unsent: true },
    ...{ mountpoint: `/home/me/Holdall/${name}`, read_only: false, passthrough: { on: false, why: LONG.sentence } },
    ...{ known_files: 18_402, cached_bytes: 6 * 1024 ** 3, dirty_bytes: dirty, pinned_bytes: 2 * 1024 ** 3 },
    ...{ queue: { waiting: 196, uploading: 1, failed: 2, in_use: 1 }, conflicts: 2, held_deletions: 1204 },
    ...{ requests: { get: turn, put: 3, head: 1, list: 2, delete: 0 }, sent_bytes: turn * 1e6, received_bytes: 5e9 },
    ...{ last_uploaded_at: '2026-11-20T10:00:00Z', daemon_pid: 1 },
  };
}

/** The answers about a folder, by the last part of the address. */
const FOLDER_PARTS = {
  queue: (turn) => ({
    ...{ waiting: 196, uploading: 1, failed: 2, in_use: 1, bytes: 9e9, trouble: null },
    items: Array.from({ length: 200 }, (_, index) => ({
      ...{ path: `Clients/${LONG.computer}/${LONG.drive}-${index}.odt`, change: 'upload', bytes: 8e6 },
      ...{
        sent_bytes: some(index + turn, 8e6),
        state: ['uploading', 'failed', 'in_use', 'waiting'][Math.min(index, 3)],
      },
      ...{ reason: index === 1 ? LONG.sentence : null, next_try_at: null, since: '2026-11-20T10:00:00Z' },
    })),
  }),
  conflicts: () =>
    [0, 1].map((index) => ({
      ...{
        path: `Finance/${LONG.drive}-${index}.ods`,
        kept_as: `Finance/${LONG.drive}-${index} (conflict, laptop).ods`,
      },
      ...{ at: '2026-11-20T10:00:00Z', our_bytes: 86_000, their_bytes: 93_000, their_time: '2026-11-20T09:00:00Z' },
    })),
  deletions: () => ({
    ...{ count: 1204, at: '2026-11-20T10:00:00Z' },
    paths: Array.from({ length: 100 }, (_, index) => `Archive 2019/${LONG.drive}/${index}.pdf`),
  }),
};

/** The version of the pages. */
const MANIFEST = await readFile(new URL('../../Cargo.toml', import.meta.url), 'utf8');
const VERSION = /^version = "(.+)"$/m.exec(MANIFEST)[1];

function overview({ drives, version, long }, turn) {
  const cards = Array.from({ length: drives }, (_, index) => card(index, turn, long));
  const unsent = cards.reduce((sum, one) => sum + one.unsent_bytes, 0);
  return {
    version,
    line: `Uploading ${(unsent / 1e6 + turn).toFixed(1)} MB`,
    tone: 'busy',
    paused_until: null,
    unsent_bytes: unsent,
    unsent_is_known: true,
    attention: 0,
    drives: cards,
  };
}

const KINDS = ['opened', 'uploaded', 'closed', 'snapshot', 'pin', 'network', 'conflict', 'attention'];

export function activity(rows, long = false) {
  return Array.from({ length: rows }, (_, index) => ({
    id: rows - index,
    at: new Date(Date.UTC(2026, 10, 20, 12) - index * 90_000).toISOString(),
    drive: nameOf(index % 200, long),
    kind: KINDS[index % KINDS.length],
    message: long ? LONG.sentence : `Something happened to this drive for the ${rows - index}. time`,
  }));
}

const GIB = 1024 ** 3;

/** A drive with as much to show as possible. */
function drive(name, turn) {
  const moving = some(turn, 900) * 1e6;
  return {
    ...{ name, uuid: 'u', state: 'Syncing', reason: null, since: '2026-11-20T10:00:00Z', paused: false },
    ...{ needs_login: false, epoch: 7, root: 'root/ab/1', size_bytes: 500 * GIB, cached_bytes: 90 * GIB },
    ...{ unapplied_bytes: moving, cache_limit_bytes: 100 * GIB, dirty_bytes: moving, unpushed_bytes: moving + 1 },
    ...{ unpushed_is_known: true, batch_bytes: 1e9, batch_done_bytes: moving, uploaded_bytes: turn * 1e6 },
    cache: { dirty_bytes: moving, pinned_bytes: 20 * GIB, metadata_bytes: GIB, evictable_bytes: 60 * GIB - moving },
    ...{
      oldest_dirty_age_ms: 90_000,
      journal_bytes: moving,
      journal_limit_bytes: 32 * GIB,
      pending_pull_bytes: moving,
      lacks_metadata: false,
    },
    ...{ fetched_bytes: 9e9, fetched_used_bytes: 7e9, pinned_bytes: 20 * GIB, pins: [], forks: [], replicas: [] },
    ...{ block_device: '/dev/nbd0', attach: 'nbd', mountpoint: `/home/me/Holdall/${name}`, daemon_pid: 1 },
    ...{ store: 's3://bucket/prefix', store_mode: 'swap', holder: null, last_commit_at: '2026-11-20T10:00:00Z' },
    requests: { get: turn * 7, put: turn * 3, head: 1, list: 0, delete: 0 },
    ...{ sent_bytes: turn * 1e6, received_bytes: turn * 2e6, used_bytes: 120 * GIB },
  };
}

/** A drive with a second version. */
const forked = (name, turn) => ({
  ...drive(name, turn),
  forks: [
    {
      ...{ name: `${name} (fork from laptop, 2026-11-20)`, uuid: `fork-of-${name}`, device: LONG.computer },
      ...{ taken_by: LONG.computer, base: 'root/ab/1', made_at: '2026-11-20T10:00:00Z', in_place: false },
      ...{ mountpoint: null, records: 3, bytes: 5e9, size_bytes: 500 * GIB },
    },
  ],
});

const CELLS = ['absent', 'cached', 'pinned', 'dirty', 'uploading', 'empty'];
const STATES = ['available', 'online_only', 'always_keep', 'partly'];

/** The answers about a drive, by the last part of the address. */
const PARTS = {
  current: () => ({
    ...{ committed_at: '2026-11-20T10:00:00Z', device: LONG.computer, size_bytes: 500 * GIB, this_device: false },
  }),
  map: (turn) => ({
    cell_bytes: (500 * GIB) / 4096,
    // All of it changes from one request to the next.
    cells: Array.from({ length: 4096 }, (_, index) => CELLS[some(index + turn, CELLS.length)]),
    bytes: Object.fromEntries([...CELLS, 'failed'].map((state, index) => [state, some(index + turn, 100 * GIB)])),
  }),
  queue: (turn) =>
    Array.from({ length: 200 }, (_, index) => ({
      ...{ kind: 'segment', bytes: some(index + turn, 8e6), tries: index % 3 },
      ...{ last_error: index % 3 ? 'the store took too long' : null, next_try_at: null },
    })),
  snapshots: () =>
    Array.from({ length: 200 }, (_, index) => ({
      ...{ label: `before change ${index}`, root: `root/ab/${index}` },
      ...{ taken_at: '2026-11-20T10:00:00Z', size_bytes: 500 * GIB },
    })),
  pins: (turn) =>
    Array.from({ length: 100 }, (_, index) => ({
      ...{ drive: 'drive-000', path: `/home/me/Holdall/drive-000/folder-${index}`, state: 'Syncing', reason: null },
      ...{ bytes: 5e9, ready_bytes: some(index + turn, 5e9), files_total: 5000, files_ready: some(index + turn, 5000) },
      at: '2026-11-20T10:00:00Z',
    })),
  directory: () =>
    Array.from({ length: 20_000 }, (_, index) => ({
      ...{ name: `${index < 50 ? 'folder' : 'file'}-${index}`, kind: index < 50 ? 'directory' : 'file' },
      ...{ bytes: some(index, 1e9), local_bytes: some(index, 1e8), pinned_by: null },
      state: index < 50 ? null : STATES[index % STATES.length],
    })),
};

const FINDINGS = [
  { subject: `store ${LONG.store}`, ok: false, detail: `${LONG.store} did not answer within 10 s.` },
  { subject: 'nbd', ok: true, detail: 'The kernel has nbd.' },
].map((one) => ({ ...one, action: null, actions: [], on_screen: [{ text: LONG.sentence }], repaired: false }));

/** The answers about the whole computer. */
const WHOLE = {
  '/v1/daemon': { version: VERSION, pid: 1, uptime_ms: 1 },
  '/v1/stores': [
    { store: LONG.store, user: 'ann@a-rather-long-name.example.org', kept: 'keyring', drives: [LONG.drive] },
    { store: 's3://bucket/prefix', user: 'AKIAIO…', kept: 'file', drives: [] },
  ],
  '/v1/limits': {
    ...{ up_bytes_per_s: 1 << 20, down_bytes_per_s: null, on_metered: 'pause', metered: null, paused_until: null },
    ...{ cache_bytes: 20 * GIB, cache_of: {}, cache_total_bytes: null, indexers: 'slow', proxy: 'off' },
    quiet: { from_minute: 480, until_minute: 1080, days: [true, true, true, true, true, false, false] },
    quiet_now: true,
  },
  '/v1/doctor': { ok: false, summary: '1 problem was found: store.', findings: FINDINGS },
};

/**
 * Starts it. `everyMs` is how often the overview changes, by default more often than with a real daemon; `long` makes names and
 * sentences as long as possible.
 */
export async function start({
  pages,
  drives = 200,
  folders = 2,
  rows = 10_000,
  everyMs = 50,
  version = VERSION,
  long = false,
}) {
  const all = activity(rows, long);
  const streams = new Set();
  let turn = 0;
  const tell = (response) => response.write(`data: ${JSON.stringify(overview({ drives, version, long }, turn))}\n\n`);
  const timer = setInterval(() => {
    turn += 1;
    for (const response of streams) tell(response);
  }, everyMs);
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://localhost');
    const json = (value) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (url.pathname === '/v1/overview') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      streams.add(response);
      response.on('close', () => streams.delete(response));
      tell(response);
    } else if (url.pathname === '/v1/folders') {
      json(Array.from({ length: folders }, (_, index) => folder(index, turn, long)));
    } else if (url.pathname.startsWith('/v1/folders/') && FOLDER_PARTS[url.pathname.split('/')[4]]) {
      json(FOLDER_PARTS[url.pathname.split('/')[4]](turn));
    } else if (url.pathname === '/v1/drives') {
      json(Array.from({ length: Math.min(drives, 3) }, (_, index) => forked(nameOf(index, long), turn)));
    } else if (WHOLE[url.pathname] && request.method === 'POST') {
      const line = JSON.stringify({ result: WHOLE[url.pathname] });
      response.writeHead(200, { 'content-type': 'application/x-ndjson' }).end(`${line}\n`);
    } else if (WHOLE[url.pathname]) {
      json(WHOLE[url.pathname]);
    } else if (url.pathname === '/v1/activity') {
      const before = Number(url.searchParams.get('before') ?? Infinity);
      const limit = Number(url.searchParams.get('limit') ?? 100);
      json(all.filter((row) => row.id < before).slice(0, limit));
    } else if (/^\/v1\/drives\/[^/]+$/.test(url.pathname)) {
      json(forked(url.pathname.split('/')[3], turn));
    } else if (url.pathname.startsWith('/v1/drives/') && PARTS[url.pathname.split('/')[4]]) {
      json(PARTS[url.pathname.split('/')[4]](turn));
    } else if (url.pathname.startsWith('/v1/')) {
      response.writeHead(404, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify({
          code: 'not_found',
          message: 'Not here.',
          consequence: '',
          action: '',
        }),
      );
    } else {
      const file = normalize(join(pages, url.pathname === '/' ? 'index.html' : url.pathname));
      try {
        const bytes = await readFile(file);
        response
          .writeHead(200, {
            'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
          })
          .end(bytes);
      } catch {
        response.writeHead(404).end();
      }
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    listeners: () => streams.size,
    stop() {
      clearInterval(timer);
      server.closeAllConnections();
      server.close();
    },
  };
}
