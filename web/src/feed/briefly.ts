// Answers that are good for some seconds: asked for again only after that.

/** The same question, not asked twice of the same subject while its answer is fresh. */
export function briefly<T>(freshMs: number, asked: (subject: string) => Promise<T>): (subject: string) => Promise<T> {
  const answers = new Map<string, { at: number; answer: Promise<T> }>();
  return (subject) => {
    const now = performance.now();
    for (const [each, { at }] of answers) if (now - at > freshMs) answers.delete(each);
    const known = answers.get(subject);
    if (known) return known.answer;
    const answer = asked(subject);
    answers.set(subject, { at: now, answer });
    return answer;
  };
}
