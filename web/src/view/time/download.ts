// Downloading data of the page as a file.

export function downloadText(name: string, text: string): void {
  download(name, new Blob([text], { type: "text/csv;charset=utf-8" }));
}

export function download(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
