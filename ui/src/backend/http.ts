//! The daemon over HTTP, from a page that it served. The session is a cookie; requests that change something carry a header that no other
//! site's page can send.

import { t } from '../lib/text';
import { Refused, type Backend, type Following, type Method, type StreamListener } from './backend';
import { events, lines } from './lines';
import type { Failure, Progress } from './shapes';

/** Pauses before a stream is tried again: short at first, then often enough for a person who has just started the daemon. */
export const NO_SESSION_RETRY_MS = 10_000;
const RETRY_AFTER_MS = [250, 500, 1000, 2000, 3000];

interface Line {
  progress?: Progress;
  result?: unknown;
  error?: Failure;
}

export class HttpBackend implements Backend {
  #wake = new Set<() => void>();

  constructor(
    readonly base = '',
    readonly request: typeof fetch = (...all) => fetch(...all),
  ) {}

  async call(method: Method, path: string, body?: unknown, { onProgress, signal }: Following = {}): Promise<unknown> {
    const response = await this.#ask(method, path, body, signal);
    if (method === 'GET') return response.json();
    if (!response.body) throw broken();
    for await (const text of lines(response.body)) {
      if (text === '') continue;
      const line = JSON.parse(text) as Line;
      if (line.progress) onProgress?.(line.progress);
      else if (line.error) throw new Refused(line.error);
      else if ('result' in line) return line.result;
    }
    throw broken();
  }

  async #ask(method: Method, path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = {};
    if (method !== 'GET') headers['X-Holdall'] = '1';
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
    if (body !== undefined) init.body = JSON.stringify(body);
    if (signal) init.signal = signal;
    let response;
    try {
      response = await this.request(this.base + path, init);
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new Refused({
        code: 'no_daemon',
        message: t('failure.no_daemon'),
        consequence: t('failure.no_daemon.consequence'),
        action: t('failure.no_daemon.action'),
      });
    }
    if (response.ok) return response;
    throw await refusal(response);
  }

  stream(path: string, { onData, onState }: StreamListener): () => void {
    const closed = new AbortController();
    const run = async () => {
      let tries = 0;
      while (!closed.signal.aborted) {
        try {
          const response = await this.#ask('GET', path, undefined, closed.signal);
          if (!response.body) throw broken();
          onState('live');
          tries = 0;
          for await (const data of events(response.body)) {
            if (closed.signal.aborted) return;
            onData(JSON.parse(data));
          }
        } catch (error) {
          if (closed.signal.aborted) return;
          if (error instanceof NoSession) {
            onState('no-session');
            // If the person signs in through another page of this browser, this page continues.
            await this.#pause(NO_SESSION_RETRY_MS, closed.signal);
            continue;
          }
        }
        if (closed.signal.aborted) return;
        onState('down');
        await this.#pause(RETRY_AFTER_MS[Math.min(tries++, RETRY_AFTER_MS.length - 1)] ?? 0, closed.signal);
      }
    };
    void run();
    return () => closed.abort();
  }

  #pause(ms: number, closed: AbortSignal): Promise<void> {
    return new Promise((done) => {
      const end = () => {
        clearTimeout(timer);
        this.#wake.delete(end);
        closed.removeEventListener('abort', end);
        done();
      };
      const timer = setTimeout(end, ms);
      this.#wake.add(end);
      closed.addEventListener('abort', end);
    });
  }

  retry(): void {
    for (const wake of [...this.#wake]) wake();
  }
}

/** The session's cookie is missing or too old. */
export class NoSession extends Refused {}

async function refusal(response: Response): Promise<Refused> {
  const document: unknown = await response.json().catch(() => null);
  const known = isFailure(document) ? document : null;
  if (response.status === 401) {
    return new NoSession(
      known ?? { code: 'failed', message: t('session.title'), consequence: '', action: t('session.text') },
    );
  }
  return new Refused(known ?? { code: 'failed', message: `HTTP ${response.status}`, consequence: '', action: '' });
}

function isFailure(document: unknown): document is Failure {
  return typeof document === 'object' && document !== null && 'code' in document && 'message' in document;
}

function broken(): Refused {
  return new Refused({
    code: 'no_daemon',
    message: t('failure.broken'),
    consequence: t('failure.broken.consequence'),
    action: t('failure.broken.action'),
  });
}
