import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Live } from '../src/lib/live.svelte';
import { FakeBackend, card, overview } from './fake';
import { Memory, look } from './setup';

describe('what the daemon says of all drives', () => {
  let backend: FakeBackend;
  let storage: Memory;
  let live: Live;

  beforeEach(() => {
    vi.useFakeTimers();
    look('visible');
    backend = new FakeBackend();
    storage = new Memory();
    live = new Live(backend, storage);
  });

  it('is shown four times a second, and what did not change stays what it is', () => {
    const end = live.start();
    backend.tell(overview(card('a'), card('b')));
    const [a] = live.overview?.drives ?? [];
    expect(live.drawn).toBe(1);
    for (let unsent = 1; unsent <= 10; unsent += 1) backend.tell(overview(card('a'), card('b', unsent)));
    vi.advanceTimersByTime(275);
    expect(live.drawn).toBe(2);
    expect(live.card('b')?.unsent_bytes).toBe(10);
    expect(live.card('a')).toBe(a);
    end();
    expect(backend.streams.size).toBe(0);
  });

  it('is not listened to while the page is hidden', () => {
    const end = live.start();
    look('hidden');
    expect(backend.streams.size).toBe(0);
    look('visible');
    expect(backend.streams.size).toBe(1);
    end();
  });

  it('is old also where the last of it is drawn after the daemon has gone', () => {
    const end = live.start();
    for (const stream of backend.streams) stream.onState('live');
    backend.tell(overview(card('a')));
    backend.tell(overview(card('a', 5)));
    for (const stream of backend.streams) stream.onState('down');
    vi.advanceTimersByTime(275);
    expect(live.card('a')?.unsent_bytes).toBe(5);
    expect(live.staleSince).not.toBeNull();
    end();
  });

  it('is told as old while the daemon is away, and after the page is opened anew', () => {
    const end = live.start();
    for (const stream of backend.streams) stream.onState('live');
    backend.tell(overview(card('a')));
    vi.advanceTimersByTime(275);
    expect(live.staleSince).toBeNull();
    for (const stream of backend.streams) stream.onState('down');
    expect(live.connection).toBe('down');
    const since = live.staleSince;
    expect(since).toBe(Date.now());
    vi.advanceTimersByTime(5000);
    for (const stream of backend.streams) stream.onState('down');
    expect(live.staleSince).toBe(since);
    for (const stream of backend.streams) stream.onState('live');
    backend.tell(overview(card('a'), card('b')));
    expect(live.staleSince).toBeNull();
    end();

    const later = new Live(new FakeBackend(), storage);
    later.start()();
    expect(later.overview?.drives.map((one) => one.name)).toEqual(['a', 'b']);
    expect(later.staleSince).not.toBeNull();
    storage.setItem('holdall.last', '{"at": 1, "overview": {}}');
    const broken = new Live(new FakeBackend(), storage);
    broken.start()();
    expect(broken.overview).toBeNull();
  });
});
