/** Open a dialog above the page; a click beside it closes it. Closed by `close()` it gives the focus back to what had it: removed alone it would not. */
export function modal(dialog: HTMLDialogElement): void {
  dialog.showModal();
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}
