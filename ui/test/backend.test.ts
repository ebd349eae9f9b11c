import { describe, expect, it } from 'vitest';
import { Refused, failureOf, type StreamState } from '../src/backend/backend';
import { HttpBackend } from '../src/backend/http';
import { events, lines } from '../src/backend/lines';
import { TauriBackend, type TauriCore } from '../src/backend/tauri';
import { t, type TextKey } from '../src/lib/text';
import { inline } from '../tools/texts';

const body = (...pieces: (string | Uint8Array)[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces)
        controller.enqueue(typeof piece === 'string' ? new TextEncoder().encode(piece) : piece);
      controller.close();
    },
  });

async function all<T>(from: AsyncGenerator<T>): Promise<T[]> {
  const found = [];
  for await (const one of from) found.push(one);
  return found;
}

const json = (value: unknown, status = 200) => new Response(JSON.stringify(value), { status });
const failure = { code: 'held', message: 'm', consequence: 'c', action: 'a' };

describe('lines', () => {
  it('are whole however they come', async () => {
    const bytes = new TextEncoder().encode('ä\nb');
    expect(await all(lines(body(bytes.slice(0, 1), bytes.slice(1), '\r\n\nlast')))).toEqual(['ä', 'b', '', 'last']);
  });

  it('are events where they have data', async () => {
    expect(await all(events(body(': alive\n\nda', 'ta: 1\ndata:2\n\n', 'event: x\n\ndata: cut')))).toEqual(['1\n2']);
  });
});

describe('the daemon over HTTP', () => {
  it('answers with a document, or with progress and a result', async () => {
    const asked: [string, RequestInit][] = [];
    const answers = [
      json({ version: '1' }),
      new Response(body('{"progress":{"done":1}}\n{"pro', 'gress":{"done":2}}\n{"result":{"x":1}}\n')),
    ];
    const backend = new HttpBackend('', async (url, init) => {
      asked.push([String(url), init ?? {}]);
      return answers.shift() ?? json({});
    });
    expect(await backend.call('GET', '/v1/daemon')).toEqual({ version: '1' });
    const progress: unknown[] = [];
    expect(await backend.call('POST', '/v1/x', { a: 1 }, { onProgress: (said) => progress.push(said) })).toEqual({
      x: 1,
    });
    expect(progress).toEqual([{ done: 1 }, { done: 2 }]);
    expect(asked[0]?.[1].headers).toEqual({});
    expect(asked[1]?.[1]).toMatchObject({ method: 'POST', body: '{"a":1}', headers: { 'X-Holdall': '1' } });
  });

  it('fails with the daemon’s own words, or with what can be said without it', async () => {
    const answers: (() => Response)[] = [
      () => new Response(body(`{"error":${JSON.stringify(failure)}}\n`)),
      () => json(failure, 409),
      () => new Response('teapot', { status: 418 }),
      () => new Response(body('{"progress":{}}\n')),
      () => {
        throw new TypeError('fetch failed');
      },
    ];
    const backend = new HttpBackend('', async () => (answers.shift() ?? (() => json({})))());
    const codes = [];
    for (let turn = 0; turn < 5; turn += 1) {
      const error: unknown = await backend.call('POST', '/v1/x').catch((error: unknown) => error);
      expect(error).toBeInstanceOf(Refused);
      codes.push([failureOf(error).code, failureOf(error).message]);
    }
    expect(codes).toEqual([
      ['held', 'm'],
      ['held', 'm'],
      ['failed', 'HTTP 418'],
      ['no_daemon', t('failure.broken')],
      ['no_daemon', t('failure.no_daemon')],
    ]);
  });

  it('is listened to again and again until that is ended', async () => {
    const answers: (() => Response)[] = [
      () => new Response(body('data: 1\n\n')),
      () => {
        throw new TypeError('refused');
      },
      () => new Response(body('data: 2\n\n')),
    ];
    const backend = new HttpBackend('', async (_, init) => {
      const next = answers.shift();
      if (next) return next();
      // It stays open from now on.
      return new Promise<Response>((_, reject) =>
        init?.signal?.addEventListener('abort', () => reject(new Error('aborted'))),
      );
    });
    const heard: unknown[] = [];
    const states: StreamState[] = [];
    const end = await new Promise<() => void>((done) => {
      const close = backend.stream('/v1/overview', {
        onData: (data) => {
          heard.push(data);
          if (heard.length === 2) done(close);
        },
        onState: (state) => {
          states.push(state);
          if (state === 'down') setTimeout(() => backend.retry());
        },
      });
    });
    end();
    expect(heard).toEqual([1, 2]);
    expect(states).toEqual(['live', 'down', 'down', 'live']);
  });

  it('is not asked again once the session has ended', async () => {
    let asked = 0;
    const backend = new HttpBackend('', async () => {
      asked += 1;
      return json(failure, 401);
    });
    const state = await new Promise((done) =>
      backend.stream('/v1/overview', { onData: () => undefined, onState: done }),
    );
    expect([state, asked]).toEqual(['no-session', 1]);
  });
});

describe('the daemon by way of the desktop app', () => {
  it('is asked with the same words', async () => {
    const asked: [string, Record<string, unknown> | undefined][] = [];
    const core: TauriCore = {
      Channel: class {
        onmessage = () => undefined;
      },
      invoke: async (command, args) => {
        asked.push([command, args]);
        if (command === 'call' && args?.['path'] === '/v1/fails') throw failure;
        if (command === 'listen')
          (args?.['channel'] as { onmessage: (message: unknown) => void }).onmessage({ data: 7 });
        return 'done';
      },
    };
    const backend = new TauriBackend(core);
    expect(await backend.call('POST', '/v1/x', { a: 1 })).toBe('done');
    expect(asked[0]?.[1]).toMatchObject({ method: 'POST', path: '/v1/x', body: { a: 1 } });
    await expect(backend.call('GET', '/v1/fails')).rejects.toMatchObject({ failure });
    const heard: unknown[] = [];
    const close = backend.stream('/v1/overview', { onData: (data) => heard.push(data), onState: () => undefined });
    expect(heard).toEqual([7]);
    close();
    expect(asked.at(-1)?.[0]).toBe('end_call');
  });

  it('is the way to the app around the page, too', async () => {
    const asked: string[] = [];
    const core: TauriCore = {
      Channel: class {
        onmessage = () => undefined;
      },
      invoke: async (command, args) => {
        asked.push(command);
        if (command === 'open_directory') throw failure;
        if (command === 'tell_page')
          (args?.['channel'] as { onmessage: (message: unknown) => void }).onmessage({ go: '#/settings' });
        if (command === 'notices') return { network: false };
        return command === 'autostart' ? true : '/home/ann/Downloads/key.txt';
      },
    };
    const { desktop, openDirectory, saveText } = new TauriBackend(core);
    const said: unknown[] = [];
    desktop.hear((message) => said.push(message));
    expect(said).toEqual([{ go: '#/settings' }]);
    expect(await desktop.autostart()).toBe(true);
    expect(await desktop.notices()).toEqual({ network: false });
    expect(await saveText('key.txt', 'k')).toBe('/home/ann/Downloads/key.txt');
    await expect(openDirectory('/etc')).rejects.toMatchObject({ failure });
    await desktop.stay();
    expect(asked.at(-1)).toBe('stay');
  });
});

describe('texts', () => {
  it('have their values and plurals', () => {
    expect(t('progress.of', { done: 1204, total: '2' })).toBe('1,204 of 2');
    expect(t('drive.forks', { count: 1 })).toBe('1 fork');
    expect(t('drive.forks', { count: 0 })).toBe('0 forks');
    expect(t('held.title')).toContain('{device}');
  });

  it('are put in where they are named', () => {
    const catalogue = { a: 'A "<b>" {x}', 'b.c': 'B {x}', d: { one: '1', other: 'n' }, unused: 'U' };
    const source = `<p title={t('a')}>{t('a')}</p>{t('b.c', { x })} {t('d')} \${t('a')} fn(t('a')) const w = 'b.c'`;
    expect(inline(source, catalogue)).toBe(
      `<p title="A &#34;&#60;b&#62;&#34; &#123;x&#125;">A &#34;&#60;b&#62;&#34; &#123;x&#125;</p>{t("B {x}", { x })} {t('d')} \${"A \\"<b>\\" {x}"} fn("A \\"<b>\\" {x}") const w = 'b.c'`,
    );
    expect(inline("t('d', { count })", catalogue)).toBe('t({"one":"1","other":"n"}, { count })');
    // What is in the place of a key is filled in as what it stands for would be.
    expect(t('B {x}' as TextKey, { x: 1 })).toBe('B 1');
  });
});
