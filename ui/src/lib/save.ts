//! Saves a text as a file of a person's own. A browser shows where; where it is the app that saves, the file is given.

import { backend } from '../app';

export async function saveText(name: string, text: string): Promise<string | null> {
  if (backend.saveText) return backend.saveText(name, text);
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
  return null;
}
