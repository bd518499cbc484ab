/** Open a dialog above the page while it is there; a click beside it closes it, and the focus goes back to what had it. */
export function modal(dialog: HTMLDialogElement): () => void {
  const before = document.activeElement;
  dialog.showModal();
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  // A dialog that is removed while it is open leaves the focus nowhere: the next Tab would start at the end of the page. Once it is removed,
  // because everything behind an open dialog is inert; and not by `close()`, whose event comes later, when the next one may be open.
  return () =>
    queueMicrotask(() => {
      if (document.activeElement === document.body && before instanceof HTMLElement) before.focus();
    });
}
