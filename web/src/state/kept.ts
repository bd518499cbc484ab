// What this browser keeps of the reader's choices. One that refuses to keep anything still shows the page.

export function kept(key: string): string | null {
  try {
    return localStorage.getItem(`fleet-smi.${key}`);
  } catch {
    return null;
  }
}

export function keep(key: string, value: string): void {
  try {
    localStorage.setItem(`fleet-smi.${key}`, value);
  } catch {
    return;
  }
}
