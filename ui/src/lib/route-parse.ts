//! The current place, from the address's fragment: reloading and going back work, and none of it reaches the daemon.

export type Route =
  | { screen: 'drives' }
  | { screen: 'drive'; name: string }
  | { screen: 'keep'; name: string | null }
  | { screen: 'add' }
  | { screen: 'activity'; drive: string | null }
  | { screen: 'forks' }
  | { screen: 'settings' }
  | { screen: 'help'; page: string | null };

export function parse(hash: string): Route {
  const [screen = '', name] = hash
    .replace(/^#\/?/, '')
    .split('/')
    .map((part) => decode(part));
  switch (screen) {
    case 'drive':
      return name ? { screen, name } : { screen: 'drives' };
    case 'keep':
      return { screen, name: name || null };
    case 'activity':
      return { screen, drive: name || null };
    case 'help':
      return { screen, page: name || null };
    case 'add':
    case 'forks':
    case 'settings':
      return { screen };
    default:
      return { screen: 'drives' };
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(route: Route): string {
  const of = (name: string | null) => (name ? `/${encodeURIComponent(name)}` : '');
  switch (route.screen) {
    case 'drive':
    case 'keep':
      return `#/${route.screen}${of(route.name)}`;
    case 'activity':
      return `#/activity${of(route.drive)}`;
    case 'help':
      return `#/help${of(route.page)}`;
    default:
      return `#/${route.screen}`;
  }
}
