//! Counts changes of the look (light, dark, contrast): each of them makes canvases redraw.

class Look {
  version = $state(0);

  constructor() {
    for (const query of ['(prefers-color-scheme: dark)', '(prefers-contrast: more)']) {
      matchMedia(query).addEventListener('change', () => (this.version += 1));
    }
  }
}

export const look = new Look();
