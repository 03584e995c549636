"""The report's style sheet: one column on a phone, light and dark by the reader's setting, no font to fetch."""

CSS = """
:root { color-scheme: light dark;
  --page: #faf9f7; --card: #ffffff; --ink: #1c1917; --soft: #6b6560; --line: #e7e2dc; --accent: #c2410c;
  --kept: #0d9488; --dropped: #d97706; --quarantined: #be123c; --shade: #f4f1ed;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
@media (prefers-color-scheme: dark) { :root {
  --page: #141210; --card: #1d1a18; --ink: #ebe6e0; --soft: #a39b93; --line: #37322e; --accent: #fb923c;
  --kept: #2dd4bf; --dropped: #fbbf24; --quarantined: #fb7185; --shade: #262220; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 3.2rem; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans CJK SC",
    "PingFang SC", "Microsoft YaHei", sans-serif; }
main, header.top > div, nav.contents > div, footer { max-width: 68rem; margin: 0 auto; padding: 0 1.25rem; }
header.top { padding: 2.4rem 0 1.2rem; }
header.top .eyebrow { color: var(--accent); font-weight: 600; letter-spacing: .04em; font-size: .85rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: .2rem 0 .4rem; overflow-wrap: anywhere; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 0 0 .3rem; letter-spacing: -.005em; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .3rem 0 .8rem; max-width: 46rem; }
.soft, .note { color: var(--soft); } .note { font-size: .9rem; }
a { color: var(--accent); }
nav.contents { position: sticky; top: 0; background: var(--page); border-bottom: 1px solid var(--line); z-index: 2; }
nav.contents > div { display: flex; gap: 1.1rem; overflow-x: auto; padding-top: .55rem; padding-bottom: .55rem;
  scrollbar-width: none; white-space: nowrap; font-size: .9rem; }
nav.contents a { color: var(--soft); text-decoration: none; } nav.contents a:hover { color: var(--accent); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.25rem;
  margin: 1.25rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 1.2rem 0 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.2; font-variant-numeric: tabular-nums;
  font-weight: 650; }
.tile span { color: var(--soft); font-size: .82rem; }
.scroll { overflow-x: auto; margin: .6rem -1.25rem; padding: 0 1.25rem; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 600; font-size: .8rem; vertical-align: bottom; }
th, td { padding: .42rem .8rem .42rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child > td { border-bottom: 0; }
td.name, th:first-child { position: sticky; left: 0; background: var(--card); }
.name .bad { white-space: normal; }
td.n, th.n { text-align: right; white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
td.name { font-weight: 600; white-space: nowrap; }
.bar { display: flex; height: .6rem; min-width: 7rem; border-radius: 3px; overflow: hidden;
  background: var(--shade); margin-top: .45rem; }
.bar i { display: block; height: 100%; }
.kept { background: var(--kept); } .dropped { background: var(--dropped); }
  .quarantined { background: var(--quarantined); }
.plain { background: var(--accent); }
.key { display: inline-flex; align-items: center; gap: .35rem; margin-right: 1rem; font-size: .85rem;
  color: var(--soft); }
.key i { width: .7rem; height: .7rem; border-radius: 2px; }
.reasons { display: flex; flex-wrap: wrap; gap: .2rem .9rem; color: var(--soft); font-size: .84rem;
  min-width: 11rem; }
.reasons b { color: var(--ink); font-weight: 600; }
.bad { color: var(--quarantined); font-weight: 650; } .good { color: var(--kept); font-weight: 650; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem 1.5rem; }
figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; font-size: .92rem; }
svg { width: 100%; height: auto; display: block; stroke-linejoin: round; stroke-linecap: butt; }
svg text { font-family: inherit !important; }
details { border-top: 1px solid var(--line); padding: .55rem 0; } details[open] > summary { margin-bottom: .5rem; }
summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; } summary .soft { font-weight: 400;
  font-size: .88rem; }
pre { background: var(--shade); border-radius: 8px; padding: .7rem .85rem; margin: .35rem 0; font-size: .82rem;
  line-height: 1.5;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 22rem; overflow-y: auto; unicode-bidi: isolate;
  font-family: var(--mono); }
pre.text { font-family: inherit; font-size: .9rem; max-height: 13rem; }
code { font-family: var(--mono); font-size: .86em; overflow-wrap: anywhere; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: .75rem; }
.pair > div { min-width: 0; } .label { font-size: .8rem; color: var(--soft); font-weight: 600; }
.record { margin: .6rem 0 1.2rem; } .record > .note { overflow-wrap: anywhere; margin: 0 0 .2rem; }
.prompt { text-decoration: underline; text-decoration-color: var(--accent); text-underline-offset: .2em; }
table.pairs td:first-child { width: 38%; } td.from { min-width: 14rem; max-width: 24rem; }
footer { color: var(--soft); font-size: .85rem; padding-top: .5rem; padding-bottom: 3rem; }
@media (max-width: 40rem) { body { font-size: 15px; } section { padding: 1rem; border-radius: 10px; }
  h1 { font-size: 1.6rem; }
  main, header.top > div, nav.contents > div, footer { padding-left: .8rem; padding-right: .8rem; }
  .bar { min-width: 3.5rem; } td.bars, th.bars { padding-right: .6rem; }
  .scroll { margin-left: -1rem; margin-right: -1rem; padding: 0 1rem; }
  .tiles { grid-template-columns: repeat(2, 1fr); } }
@media print { nav.contents { display: none; } section { break-inside: avoid-page; } pre { max-height: none; } }
""".strip()
