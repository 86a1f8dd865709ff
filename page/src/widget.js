// The view "What if" as a notebook widget (anywidget), in a shadow root that isolates its style.
import { render } from 'preact';
import css from './inspector.css';
import { useState } from 'preact/hooks';
import { html } from './parts.js';
import { readRecord } from './record.js';
import { WhatIf } from './views.js';

function Slider({ record, onBudget }) {
  const [chosen, setChosen] = useState(-1);
  return html`<main><${WhatIf} record=${record} entry=${record.entries[0]} chosen=${chosen} onChoose=${setChosen} onBudget=${onBudget} /></main>`;
}

export default {
  render({ model, el }) {
    const root = el.attachShadow({ mode: 'open' });
    const style = document.createElement('style');
    style.textContent = css.replaceAll(':root', ':host').replace(/(^|\n)html \{/, '$1:host { display: block;');
    const place = document.createElement('div');
    root.append(style, place);
    const onBudget = (budget) => {
      model.set('budget', budget);
      model.save_changes();
    };
    render(html`<${Slider} record=${readRecord(model.get('record'))} onBudget=${onBudget} />`, place);
    return () => render(null, place);
  },
};
