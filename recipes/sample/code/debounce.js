// Call `action` only after `delay` milliseconds have passed without a new call.
// A search box that asks the server on every key press would flood it; this waits for a pause.

export function debounce(action, delay, { leading = false } = {}) {
  let timer = null;

  function debounced(...args) {
    const callNow = leading && timer === null;
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = null;
      if (!leading) action.apply(this, args);
    }, delay);
    if (callNow) action.apply(this, args);
  }

  debounced.cancel = () => {
    clearTimeout(timer);
    timer = null;
  };
  return debounced;
}

// Highlight every place where the words of the query occur, longest word first,
// so that "tea" does not cut "teapot" in two.
export function highlight(text, query) {
  const words = query.split(/\s+/).filter(Boolean).sort((a, b) => b.length - a.length);
  if (words.length === 0) return [{ text, hit: false }];
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`(${escaped.join("|")})`, "gi");
  return text
    .split(pattern)
    .filter((piece) => piece !== "")
    .map((piece) => ({ text: piece, hit: words.some((word) => word.toLowerCase() === piece.toLowerCase()) }));
}
