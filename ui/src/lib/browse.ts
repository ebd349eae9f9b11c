//! Looks at a snapshot, in the drive's place.

import { Refused, failureOf } from '../backend/backend';
import type { Client } from '../backend/client';
import type { DriveStatus, Opened } from '../backend/shapes';
import { t } from './text';

/** Opens the snapshot. If that fails, the drive that was closed for it is opened again as before. */
export async function browse(client: Client, drive: DriveStatus, label: string): Promise<Opened> {
  const { name, mountpoint, attach } = drive;
  if (drive.state !== 'Closed') await client.close(name);
  try {
    return await client.open(name, { snapshot: label, read_only: true });
  } catch (error) {
    if (mountpoint === null) throw error;
    const failure = failureOf(error);
    try {
      await client.open(name, { at: mountpoint, read_only: drive.state === 'Read-only', ...(attach && { attach }) });
    } catch (another) {
      const why = failureOf(another).message;
      throw new Refused({ ...failure, consequence: t('snapshots.browse.closed', { name, why }) });
    }
    throw new Refused({ ...failure, consequence: t('snapshots.browse.back', { name }) });
  }
}
