// The card of one item: its decision and the reasons, sizes, forms, and its text with the omissions marked.
import { useMemo, useState } from 'preact/hooks';
import { classOf, figure, isLeftOut, leftOut, partsExact } from './record.js';
import { Text, html } from './parts.js';

function Sizes({ item, state, exact }) {
  const min = Number((item.fields.find(([name]) => name === 'min')?.[1] ?? '0').replaceAll(',', ''));
  const scale = Math.max(item.base ?? 0, state.size ?? 0, min, 1);
  const rows = [['base', item.base, 'held'], ...(min ? [['min', min, 'mark']] : []), ['sent', state.size, classOf(state.decision, item.critical)]];
  return html`<table class="sizes"><caption class="unseen">Sizes in tokens</caption><tbody>${rows.map(([label, tokens, kind]) => html`<tr><th scope="row">${label}</th>
    <td class="figure">${figure(tokens, exact || label === 'min' || (label === 'sent' && isLeftOut(state.decision)))}</td>
    <td class="bar" aria-hidden="true"><div class=${`fill ${kind}`} style=${{ width: `${(100 * (tokens ?? 0)) / scale}%` }}></div></td></tr>`)}</tbody></table>`;
}

export function Card({ record, entry, frame, state, steps = frame.steps ?? [] }) {
  const [view, setView] = useState('sent');
  const item = state && entry.items[state.item];
  const whole = item ? record.text(item.text) : null;
  const sent = state ? (isLeftOut(state.decision) ? '' : record.text(state.ref)) : null;
  const gone = useMemo(() => {
    if (!state || whole === null) return null;
    return isLeftOut(state.decision) ? [[0, whole.length]] : leftOut(state.ref, item.text, whole);
  }, [state, whole]);
  if (!item) return html`<section class="card empty"><p class="faint">Choose a part in the strip or the list to see its text, and the reason for its size.</p></section>`;
  const reasons = steps.filter((step) => step.items.includes(state.item));
  const goneCharacters = gone ? gone.reduce((sum, [start, end]) => sum + end - start, 0) : 0;
  const views = [['sent', 'Sent'], ...(whole !== null && goneCharacters ? [['cut', 'Left out marked']] : []), ...(whole !== null ? [['whole', 'Whole']] : [])];
  const shown = views.some(([name]) => name === view) ? view : 'sent';
  return html`<section class="card" aria-labelledby="card-title">
    <header><h2 id="card-title"><bdi>${item.id}</bdi></h2>
      <p><span class=${`chip ${classOf(state.decision, item.critical)}`}>${state.decision}</span>
        <span class="chip plain">${item.kind}</span>${item.critical && html`<span class="chip plain">critical: never cut or dropped</span>`}</p></header>
    <${Sizes} item=${item} state=${state} exact=${partsExact(frame)} />
    ${state.form && html`<p>Sent in the form <code>${state.form}</code>.</p>`}
    ${reasons.length > 0 && html`<div class="why"><h3>Why</h3><ol>${reasons.map((step) => html`<li><b>${step.action}</b>${step.before === step.after ? '' : ` ${figure(step.before, frame.exact)} → ${figure(step.after, frame.exact)}`}: ${step.why}</li>`)}</ol></div>`}
    ${item.fields.length > 0 && html`<dl class="fields">${item.fields.map(([name, value]) => html`<div><dt>${name}</dt><dd><bdi>${value}</bdi></dd></div>`)}</dl>`}
    ${item.forms.length > 0 && html`<div class="forms"><h3>Forms, best first</h3><ol>
      <li class=${!state.form ? 'taken' : ''}>its content <span class="figure">${figure(item.base, partsExact(frame))}</span></li>
      ${item.forms.map(([name, ref, size]) => html`<li class=${state.form === name ? 'taken' : ''}><details><summary><code>${name}</code> <span class="figure">${figure(size, partsExact(frame))}</span></summary>
        ${ref === null ? html`<p class="faint">The record does not contain this text.</p>` : html`<${Text} text=${record.text(ref)} label=${`Form ${name}`} />`}</details></li>`)}</ol></div>`}
    ${state.expand && html`<p class="expand">The rest comes back with <code>expand("${state.expand}")</code>.</p>`}
    <div class="choice" role="group" aria-label="Which text">${views.map(([name, label]) => html`<button aria-pressed=${shown === name ? 'true' : 'false'} onClick=${() => setView(name)}>${label}</button>`)}
      ${goneCharacters > 0 && html`<span class="faint">${figure(goneCharacters)} characters left out</span>`}</div>
    ${shown === 'sent' && sent === null && html`<p class="faint">The record does not contain this text.</p>`}
    ${shown === 'sent' && sent !== null && html`<${Text} text=${sent} label=${`What is sent of ${item.id}`} />`}
    ${shown === 'cut' && html`<${Text} text=${whole} gone=${gone} label=${`${item.id}, what was left out is marked`} />`}
    ${shown === 'whole' && html`<${Text} text=${whole} label=${`The whole text of ${item.id}`} />`}
    ${item.digest && html`<p class="digest"><span class="faint">SHA-256</span> <code>${item.digest}</code></p>`}
  </section>`;
}
