//! Saves a text as a file of a person's own.

import { backend } from '../app';

export async function saveText(name: string, text: string): Promise<void> {
  if (backend.saveText) return backend.saveText(name, text);
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
