/**
 * Blue and vermilion can be told apart with every kind of colour blindness, and differ in lightness as well.
 * source: Okabe and Ito, "Color Universal Design"
 */
export const STYLE = `
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--text:#1d2430;--soft:#5d6776;--line:#e3e6ea;--grid:#edeff2;
--pass:#5b9bd1;--passline:#0b66ad;--stop:#d55e00;--mark:#1d2430}
@media(prefers-color-scheme:dark){:root{--bg:#11151b;--card:#181d25;--text:#e8ebf0;--soft:#9aa5b4;--line:#2a313b;
--grid:#242b35;--pass:#2f6ea5;--passline:#63b0ee;--stop:#ff8c42;--mark:#e8ebf0}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
-webkit-text-size-adjust:100%;overflow-wrap:anywhere}
main{max-width:1080px;margin:0 auto;padding:2rem 1rem 3rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .25rem;letter-spacing:-.01em}
h2{font-size:1.2rem;margin:0}
h3{font-size:.95rem;font-weight:600;margin:1.75rem 0 .5rem}
p{margin:.25rem 0}
.soft{color:var(--soft)}
small,.small{font-size:.85rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;margin:1.5rem 0 0;padding:0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.75rem 1rem}
.tiles dt{color:var(--soft);font-size:.85rem}
.tiles dd{margin:0;font-size:1.5rem;font-weight:600;line-height:1.25;font-variant-numeric:tabular-nums}
.tiles dd small{display:block;font-weight:400;color:var(--soft)}
.notes{margin:1rem 0 0;padding:.75rem 1rem;border-left:4px solid var(--stop);background:var(--card);border-radius:0 8px 8px 0}
.notes p+p{margin-top:.5rem}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.25rem;margin:1.25rem 0 0}
.two{display:grid;grid-template-columns:minmax(0,1fr);gap:0 2.5rem}
@media(min-width:900px){.two{grid-template-columns:minmax(0,1fr) minmax(0,1fr)}}
.tag{display:inline-block;font-size:.75rem;font-weight:600;color:var(--soft);border:1px solid var(--line);
border-radius:99px;padding:0 .6rem;margin-left:.5rem;vertical-align:.1em}
h3+.key+.plot{margin-top:2.1rem}
.key{display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;margin:0 0 .6rem;padding:0;list-style:none;font-size:.85rem;color:var(--soft)}
.key li{display:flex;align-items:center;gap:.4rem}
.key i{width:.9rem;height:.7rem;border-radius:2px;background:var(--pass)}
.key i.stop{background:var(--stop)}
.key i.curve{height:0;border-radius:0;background:none;border-top:3px solid var(--stop)}
.key i.dash{height:0;border-radius:0;background:none;border-top:3px dashed var(--passline)}
.key i.own{width:0;height:.9rem;background:none;border-left:2px solid var(--mark)}
.key i.dot{width:.7rem;border-radius:50%;background:var(--stop)}
.plot{position:relative;margin:1.1rem .6rem 1.7rem 3.4rem}
.plot svg{display:block;width:100%;height:100%;overflow:visible}
.plot span{position:absolute;font-size:.75rem;line-height:1;color:var(--soft);white-space:nowrap;font-variant-numeric:tabular-nums}
.plot .y{right:100%;margin-right:.5rem;transform:translateY(-50%)}
.plot .x{top:100%;margin-top:.5rem;transform:translateX(-50%)}
.plot .at{bottom:100%;margin-bottom:.3rem;color:var(--text);font-weight:600;transform:translateX(-50%)}
.plot .at.first{transform:none}.plot .at.last{transform:translateX(-100%)}
@media(max-width:560px){.plot .x.odd{display:none}}
.plot path,.plot line{vector-effect:non-scaling-stroke;fill:none}
.grid{stroke:var(--grid);stroke-width:1}
.base{stroke:var(--line);stroke-width:1}
.plot .admitted{fill:var(--pass)}
.plot .refused{fill:var(--stop)}
.clients{stroke:var(--stop);stroke-width:2.5}
.requests{stroke:var(--passline);stroke-width:2;stroke-dasharray:5 4}
.own{stroke:var(--mark);stroke-width:1.5}
.dot{stroke:var(--stop);stroke-width:11;stroke-linecap:round}
.hole{stroke:var(--card);stroke-width:5;stroke-linecap:round}
.bars{list-style:none;margin:0;padding:0}
.bars li{margin:0 0 .6rem;font-size:.85rem}
.bars p{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:baseline;gap:0 1rem;margin:0 0 .15rem;font-variant-numeric:tabular-nums}
.bars svg{display:block;width:100%;height:.6rem}
.bars .rest{fill:var(--pass)}.bars .stopped{fill:var(--stop)}
code{font:.95em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
details{margin:.25rem 0 0;font-size:.85rem}
summary{cursor:pointer;color:var(--soft);padding:.25rem 0}
.scroll{max-height:22rem;overflow:auto;border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:.85rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:.35rem 0 .35rem .6rem}
th,td{padding:.3rem .6rem;text-align:right;border-top:1px solid var(--line);font-weight:400}
th:first-child,td:first-child{text-align:left}
thead th{color:var(--soft);border-top:0;background:var(--card);position:sticky;top:0}
footer{margin-top:1.5rem}
:focus-visible{outline:2px solid var(--passline);outline-offset:2px;border-radius:4px}
@media(max-width:560px){main{padding:1.25rem .75rem 2rem}section{padding:1rem}.plot{margin-left:2.9rem}
.tiles{grid-template-columns:1fr 1fr}th,td{padding:.3rem .4rem}}
@media print{section{break-inside:avoid}}
`.replaceAll("\n", "");
