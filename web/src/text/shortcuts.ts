// The keyboard shortcuts and what each does.

export const SHORTCUTS: readonly (readonly [key: string, action: string])[] = [
  ["/", "search"],
  ["Ctrl+K", "command palette: go to a node, person or view, save a view"],
  ["f", "show only free GPUs"],
  ["g", "grid"],
  ["h", "heat map"],
  ["t", "table"],
  ["p", "people"],
  ["y", "history"],
  ["q", "queue, leases and reservations"],
  ["← → space", "in history: step back, step forward, play"],
  ["l", "back to live"],
  ["s", "stop moving, and go on"],
  ["d", "switch row density"],
  ["← → ↑ ↓", "move in the grid; Ctrl+Home and Ctrl+End jump to its ends"],
  ["Enter", "open the GPU"],
  ["Esc", "close"],
  ["?", "this list"],
];
