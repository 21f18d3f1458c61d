// The state of an actor, which can be edited.

import { h, patch } from './dom.js';
import { ofActor } from './api.js';
import { json, text, verb } from './ui.js';
import { parse } from './json.js';
import { number } from './format.js';

export default function state(page) {
  let editable; // the version that Edit is for
  let known; // the version of the actor that the state was read after
  const part = page.section({
    title: 'State', ms: 0,
    load: () => page.call('state.get'),
    show: (r) => {
      if (!ofActor() && r.version !== editable) patch(part.side, edit(r));
      editable = r.version;
      return [json(r.state), h('p.note', `as of version ${number(r.version)}`, r.form ? `, form ${number(r.form)}` : '')];
    },
  });
  // edit sends the version that was shown, so that a state that has changed since stays.
  const edit = (r) => verb('Edit…', {
    title: 'Replace the state', submit: 'Replace', wide: true,
    text: 'The code of the type decodes it first. The node refuses it if the state has changed since it was shown.',
    fields: () => [{ name: 'state', label: `State, as JSON, of version ${r.version}`, type: 'area', rows: 18, required: true, value: text(r.state) }],
    run: (v, reason) => page.act('state.replace', { state: parse(v.state), version: r.version }, reason).then((o) => `Replaced: version ${o.version}`),
    done: () => { part.refresh(); page.refresh(); },
  });
  // A large state is not read again and again.
  page.onstatus = (s) => {
    if (known !== s?.version) part.refresh();
    known = s?.version;
  };
  page.part.append(part.el);
}
