// Exports the plots of a page as one PNG: titles, bands, lines.

const [MARGIN, ABOVE, BELOW] = [24, 28, 20];
const TITLE_PX = 14;

/** Render all figures within an element, laid out as on the page. */
export function renderPng(element: HTMLElement, title: string): Promise<Blob | null> {
  const figures = [...element.querySelectorAll("figure")];
  const boxes = figures.map((figure) => figure.getBoundingClientRect());
  const [left, top] = [Math.min(...boxes.map((box) => box.left)), Math.min(...boxes.map((box) => box.top))];
  const right = Math.max(...boxes.map((box) => box.right));
  const bottom = Math.max(...boxes.map((box) => box.bottom));
  const canvas = document.createElement("canvas");
  canvas.width = (right - left + 2 * MARGIN) * devicePixelRatio;
  canvas.height = (bottom - top + 2 * MARGIN + ABOVE) * devicePixelRatio;
  const pen = canvas.getContext("2d");
  if (!pen || figures.length === 0) return Promise.resolve(null);
  const style = getComputedStyle(document.documentElement);
  pen.scale(devicePixelRatio, devicePixelRatio);
  pen.fillStyle = style.backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = style.color;
  pen.font = `600 ${TITLE_PX}px ${style.fontFamily}`;
  pen.fillText(title, MARGIN, MARGIN + TITLE_PX - BELOW / 4);
  pen.translate(MARGIN - left, MARGIN + ABOVE - top);
  for (const figure of figures) draw(pen, figure);
  return new Promise((resolve) => canvas.toBlob(resolve));
}

function draw(pen: CanvasRenderingContext2D, figure: HTMLElement): void {
  for (const mark of figure.querySelectorAll<HTMLElement>(".marks > *")) drawBlock(pen, mark);
  for (const line of figure.querySelectorAll("canvas")) {
    const box = line.getBoundingClientRect();
    pen.drawImage(line, box.left, box.top, box.width, box.height);
  }
  for (const block of figure.querySelectorAll<HTMLElement>(".blocks > *")) drawBlock(pen, block);
  for (const text of figure.querySelectorAll<HTMLElement>("figcaption > *, .blocks span")) drawText(pen, text);
}

function drawBlock(pen: CanvasRenderingContext2D, block: HTMLElement): void {
  const box = block.getBoundingClientRect();
  pen.fillStyle = getComputedStyle(block).backgroundColor;
  pen.fillRect(box.left, box.top, Math.max(1, box.width - 1), box.height - 1);
}

function drawText(pen: CanvasRenderingContext2D, text: HTMLElement): void {
  const box = text.getBoundingClientRect();
  const style = getComputedStyle(text);
  pen.fillStyle = style.color;
  pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  pen.fillText(text.textContent?.trim() ?? "", box.left + Number.parseFloat(style.paddingLeft), box.bottom - box.height * 0.3);
}
