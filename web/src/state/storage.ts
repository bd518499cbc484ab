// Settings kept in the browser's local storage. The page works without it, where it is blocked.

export function loadSetting(key: string): string | null {
  try {
    return localStorage.getItem(`fleet-smi.${key}`);
  } catch {
    return null;
  }
}

export function saveSetting(key: string, value: string): void {
  try {
    localStorage.setItem(`fleet-smi.${key}`, value);
  } catch {
    return;
  }
}
