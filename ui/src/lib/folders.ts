//! What the pages say about the files of a folder.

import type { FolderQueued, Tone } from '../backend/shapes';
import type { IconName } from '../parts/Icon.svelte';
import { bytes, moment } from './format';
import { t } from './text';

export interface FileState {
  word: string;
  icon: IconName;
  tone: Tone;
}

/** A path in two parts, as lists show it. */
export function pathOf(path: string): { name: string; directory: string } {
  const at = path.lastIndexOf('/');
  return { name: path.slice(at + 1), directory: path.slice(0, Math.max(0, at)) };
}

/** What waits to be done on the server. */
const CHANGES: Record<FolderQueued['change'], string> = {
  upload: t('file.waiting'),
  make_directory: t('file.make_directory'),
  move: t('file.move'),
  remove: t('file.remove'),
  attributes: t('file.attributes'),
  download: t('file.download'),
};

/** How a file that is not uploaded yet looks. */
export function fileState(file: FolderQueued, now: Date): FileState {
  switch (file.state) {
    case 'uploading': {
      const word =
        file.bytes > 0
          ? t('progress.of', { done: bytes(file.sent_bytes), total: bytes(file.bytes) })
          : CHANGES[file.change];
      return { icon: 'up', tone: 'busy', word };
    }
    case 'in_use':
      return { icon: 'pencil', tone: 'quiet', word: t('file.in_use') };
    case 'failed': {
      const word = file.next_try_at ? t('file.failed.next', { time: moment(file.next_try_at, now) }) : t('file.failed');
      return { icon: 'alert', tone: 'attention', word };
    }
    case 'waiting':
      return { icon: 'clock', tone: 'waiting', word: CHANGES[file.change] };
  }
}
