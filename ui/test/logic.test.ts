import { describe, expect, it, vi } from 'vitest';
import type { ActivityRow, ChunkMap } from '../src/backend/shapes';
import { CELL_STATES, cellAt, changed, grid, runs, totals } from '../src/lib/chunkmap';
import { ago, bytes, duration, moment, parseBytes, percent, second } from '../src/lib/format';
import { ceiling, counted, points, samples, SHOWN_MS } from '../src/lib/history';
import { onBeat, Pace, type Timers } from '../src/lib/pace';
import { minuteOf, timeOf, weekdays } from '../src/lib/quiet';
import { asked, groups, matches } from '../src/lib/recovery';
import { kept } from '../src/lib/same';
import { renewed } from '../src/lib/activity';
import { tabStop, visible } from '../src/lib/window';

describe('sizes', () => {
  it('are read in three digits at most', () => {
    expect([0, 1, 999, 1000, 1024, 1536, 1023 * 1024, 5 * 1024 ** 3].map(bytes)).toEqual([
      '0 B',
      '1 B',
      '999 B',
      '1 KiB',
      '1 KiB',
      '1.5 KiB',
      '1 MiB',
      '5 GiB',
    ]);
  });

  it('are written in many ways', () => {
    expect(['20G', '20 GB', '1.5 TiB', '500 kb', '1,5 MiB', '42', ' 7 b '].map(parseBytes)).toEqual([
      20 * 1024 ** 3,
      20e9,
      1.5 * 1024 ** 4,
      500e3,
      1.5 * 1024 ** 2,
      42,
      7,
    ]);
    expect(['', 'much', '-1 GB', '1 G B', '1e3'].map(parseBytes)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('read back as what was shown', () => {
    for (const size of [512, 16 * 1024 ** 2, 100 * 1024 ** 3, 3.5 * 1024 ** 4])
      expect(parseBytes(bytes(size))).toBe(size);
  });
});

describe('times', () => {
  it('are told coarsely', () => {
    expect([0, 59_000, 60_000, 3_600_000, 49 * 3_600_000].map(ago)).toEqual([
      'just now',
      'just now',
      '1 min ago',
      '1 h ago',
      '2 days ago',
    ]);
    expect([0.2, 59, 61, 3600, 7500].map(duration)).toEqual(['1 s', '59 s', '1 min', '1 h 0 min', '2 h 5 min']);
  });

  it('have their day where it is another', () => {
    const now = new Date(2026, 10, 20, 15, 0);
    expect(moment(new Date(2026, 10, 20, 9, 5), now)).toBe('09:05');
    expect(moment(new Date(2026, 10, 19, 9, 5), now)).toBe('19 Nov, 09:05');
    expect(moment(new Date(2025, 0, 2, 9, 5), now)).toBe('2 Jan 2025, 09:05');
    expect(moment('nonsense', now)).toBe('');
    // What is tried again soon.
    expect(second(new Date(2026, 10, 20, 9, 5, 7).toISOString())).toBe('09:05:07');
  });

  it('never make more than all', () => {
    expect([percent(5, 0), percent(5, 10), percent(20, 10), percent(-1, 10)]).toEqual([0, 50, 100, 0]);
  });
});

/** Time that passes when a test says so. */
class Virtual implements Timers {
  at = 0;
  #due: { at: number; run: () => void }[] = [];

  now() {
    return this.at;
  }

  after(ms: number, run: () => void) {
    const one = { at: this.at + ms, run };
    this.#due.push(one);
    return () => {
      this.#due = this.#due.filter((other) => other !== one);
    };
  }

  pass(ms: number) {
    const end = this.at + ms;
    for (;;) {
      const next = this.#due.filter((one) => one.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.#due = this.#due.filter((other) => other !== next);
      this.at = next.at;
      next.run();
    }
    this.at = end;
  }
}

describe('the pace', () => {
  it('shows the newest, four times a second', () => {
    const time = new Virtual();
    const shown: [number, number][] = [];
    let newest = 0;
    const pace = new Pace(() => shown.push([time.at, newest]), 250, time);
    for (let value = 0; value < 100; value += 1) {
      newest = value;
      pace.push();
      time.pass(10);
    }
    expect(shown).toEqual([
      [0, 0],
      [250, 24],
      [500, 49],
      [750, 74],
      [1000, 99],
    ]);
    time.pass(10_000);
    expect(shown.length).toBe(5);
  });

  it('shows nothing while hidden, and the newest afterwards', () => {
    const time = new Virtual();
    const shown: number[] = [];
    let newest = 0;
    const pace = new Pace(() => shown.push(newest), 250, time);
    pace.hidden = true;
    newest = 1;
    pace.push();
    newest = 2;
    pace.push();
    time.pass(5000);
    expect(shown).toEqual([]);
    pace.hidden = false;
    expect(shown).toEqual([2]);
  });
});

describe('the beat', () => {
  it('is the same for all that is drawn', () => {
    vi.useFakeTimers();
    const shown: [number, number][] = [];
    const begun = Date.now();
    const draw = (what: number) => () => shown.push([what, Date.now() - begun]);
    for (let at = 0; at < 10; at += 1) {
      onBeat(draw(1));
      vi.advanceTimersByTime(37);
      onBeat(draw(2));
      vi.advanceTimersByTime(63);
    }
    vi.advanceTimersByTime(1000);
    vi.useRealTimers();
    expect(shown.length).toBe(20);
    const times = new Set(shown.map(([, at]) => at));
    expect(times.size).toBeLessThanOrEqual(5);
  });
});

describe('what did not change', () => {
  it('keeps its identity', () => {
    const key = (one: { name: string }) => one.name;
    const [a, b] = [
      { name: 'a', n: 1 },
      { name: 'b', n: 1 },
    ];
    const before = [a, b];
    const after = kept(
      before,
      [
        { name: 'b', n: 2 },
        { name: 'a', n: 1 },
      ],
      key,
    );
    expect(after[1]).toBe(a);
    expect(after[0]).not.toBe(b);
    expect(kept(before, [{ ...a }, { ...b }], key)).toBe(before);
  });
});

const map = (cells: string): ChunkMap => {
  const names = {
    '.': 'absent',
    c: 'cached',
    p: 'pinned',
    d: 'dirty',
    u: 'uploading',
    f: 'failed',
    e: 'empty',
  } as const;
  return { cell_bytes: 65536, cells: [...cells].map((cell) => names[cell as keyof typeof names]) } as ChunkMap;
};

describe('the chunk map', () => {
  it('fits its place, whatever its size', () => {
    for (const cells of [1, 7, 100, 1024, 4096]) {
      for (const width of [200, 640, 2000]) {
        const form = grid(cells, width, 36);
        expect(form.columns * form.pitch).toBeLessThanOrEqual(width);
        expect(form.columns * form.rows).toBeGreaterThanOrEqual(cells);
        expect(form.pitch - form.gap).toBeGreaterThanOrEqual(12);
        expect(grid(cells, width, 18).pitch).toBeGreaterThanOrEqual(8);
      }
    }
  });

  it('draws again only what changed', () => {
    expect(changed(map('..cd'), map('.ccd'))).toEqual([1]);
    expect(changed(null, map('..'))).toEqual([0, 1]);
    expect(changed(map('..'), map('...'))).toEqual([0, 1, 2]);
  });

  it('adds up', () => {
    expect(runs(map('..cc.'))).toEqual([
      { state: 'absent', from: 0, cells: 2 },
      { state: 'cached', from: 2, cells: 2 },
      { state: 'absent', from: 4, cells: 1 },
    ]);
  });

  it('finds the cell below the pointer', () => {
    const form = { columns: 10, rows: 2, pitch: 8, gap: 1 };
    expect(cellAt(17, 9, form, 15)).toBe(12);
    expect([cellAt(79, 9, form, 15), cellAt(81, 0, form, 15), cellAt(-1, 0, form, 15)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe('a long list', () => {
  it('has in the page what can be seen, and some more', () => {
    expect(visible(10_000, 50, 5000, 600, 2)).toEqual({ first: 98, end: 114, above: 4900, below: 494_300 });
    expect(visible(3, 50, 0, 600)).toEqual({ first: 0, end: 3, above: 0, below: 0 });
    const beyond = visible(10, 50, 99_999, 600);
    expect([beyond.end, beyond.below]).toEqual([10, 0]);
    expect(visible(0, 50, 0, 600)).toEqual({ first: 0, end: 0, above: 0, below: 0 });
  });
});

describe('traffic', () => {
  it('is what was counted between two looks', () => {
    const found = samples([
      { atMs: 0, sent: 0, received: 100 },
      { atMs: 2000, sent: 4000, received: 100 },
      // Opened again: its counters began anew.
      { atMs: 3000, sent: 0, received: 0 },
      { atMs: 4000, sent: 10, received: 20 },
    ]);
    expect(found).toEqual([
      { atMs: 2000, up: 2000, down: 0 },
      { atMs: 4000, up: 10, down: 20 },
    ]);
  });

  it('is forgotten after two minutes', () => {
    let known = counted([], { atMs: 0, sent: 0, received: 0 });
    known = counted(known, { atMs: SHOWN_MS + 1, sent: 1, received: 0 });
    expect(known.length).toBe(1);
  });

  it('stays inside its box', () => {
    const shown = [{ atMs: 60_000, up: 3_000_000, down: 10 }];
    const top = ceiling(shown);
    expect(top).toBeGreaterThanOrEqual(3_000_000);
    expect(points(shown, (one) => one.up, { nowMs: 120_000, top, width: 100, height: 50 })).toMatch(
      /^50\.0,(\d|[1-4]\d)\.\d$/,
    );
  });
});

describe('quiet hours', () => {
  it('are picked as times of the day', () => {
    expect([0, 65, 1439].map(timeOf)).toEqual(['00:00', '01:05', '23:59']);
    expect(['00:00', '23:59', ''].map(minuteOf)).toEqual([0, 1439, undefined]);
    expect(weekdays().map((day) => day.short)).toEqual(['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']);
  });
});

describe('the recovery key', () => {
  it('is asked for by two different groups', () => {
    const seen = new Set<string>();
    for (let a = 0; a < 1; a += 0.07) {
      for (let b = 0; b < 1; b += 0.07) {
        const drawn = [a, b];
        const [first, second] = asked(8, () => drawn.shift() ?? 0);
        expect(first).toBeGreaterThan(0);
        expect(second).toBeGreaterThan(first);
        expect(second).toBeLessThan(8);
        seen.add(`${first} ${second}`);
      }
    }
    expect(seen.size).toBe(21);
  });

  it('is read however it was written down', () => {
    expect(groups(' abcd-EFGH 2345\n')).toEqual(['abcd', 'EFGH', '2345']);
    expect(matches('EFGH', ' efgh ')).toBe(true);
    expect(matches('EFGH', 'efg')).toBe(false);
    expect(matches(undefined, '')).toBe(false);
  });
});

describe('what has happened', () => {
  const rows = (...ids: number[]) => ids.map((id) => ({ id }) as ActivityRow);
  const ids = (list: ActivityRow[]) => list.map((row) => row.id);

  it('comes on top, and what it replaces goes', () => {
    const list = rows(9, 8, 7, 6, 5, 4, 3);
    expect(renewed(list, rows(9, 8, 7), 3)).toBe(list);
    // 9 was an upload, and 10 is the same one, gone on.
    expect(ids(renewed(list, rows(10, 8, 7), 3))).toEqual([10, 8, 7, 6, 5, 4, 3]);
    expect(ids(renewed(list, rows(11, 10, 8), 3))).toEqual([11, 10, 8, 7, 6, 5, 4, 3]);
    // All there is, and far more than a page.
    expect(ids(renewed(list, rows(10, 8), 3))).toEqual([10, 8]);
    expect(ids(renewed(list, rows(20, 19, 18), 3))).toEqual([20, 19, 18]);
    expect(ids(renewed([], rows(1), 3))).toEqual([1]);
  });

  it('is always entered by Tab', () => {
    const of = (at: number, count: number, top: number) => tabStop(at, visible(count, 58, top, 580), 58, top);
    expect(of(3, 100, 0)).toBe(3);
    // It was scrolled away, or there are fewer rows now.
    expect(of(3, 100, 3000)).toBe(52);
    expect(of(90, 5, 0)).toBe(0);
    expect(of(0, 100, 100 * 58 - 580)).toBe(90);
  });
});

describe('the legend of the map', () => {
  it('shows the true bytes, however many cells have a little of a state', () => {
    const bytes = { failed: 0, dirty: 4, uploading: 0, pinned: 8, cached: 16, absent: 612, empty: 0 };
    const map: ChunkMap = { cell_bytes: 128, cells: ['cached', 'cached', 'pinned', 'dirty', 'dirty'], bytes };
    expect(totals(map).map(({ state }) => state)).toEqual(CELL_STATES);
    expect(Object.fromEntries(totals(map).map((total) => [total.state, total.bytes]))).toEqual(bytes);
  });
});
