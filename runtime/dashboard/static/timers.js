// Schedules and alarms of an actor.

import { h } from './dom.js';
import { badge, moment, table, time, verb } from './ui.js';
import { clock, number, span } from './format.js';
import { parse } from './json.js';
import { body } from './queues.js';

const when = (s) => s.cron ? [h('code', s.cron), s.zone ? ' ' + s.zone : ''] : s.every_ms ? 'every ' + span(s.every_ms) : s.at ? 'at ' + clock(s.at) : '–';
const named = (s) => s.instance ? `${s.name}/${s.instance}` : s.name;

export default function timers(page) {
  let chosen;
  const schedules = page.section({
    title: 'Schedules', cls: 'flush', load: () => page.call('schedule.list', {}),
    actions: verb('Set…', {
      title: 'Set a schedule', text: 'One of the same name and instance is replaced.',
      fields: [{ name: 'name', label: 'Name', required: true }, { name: 'instance', label: 'Instance' }, { name: 'rule', label: 'When', required: true, placeholder: '0 3 * * *', hint: 'A cron rule, or milliseconds between runs.' }, { name: 'zone', label: 'Time zone of the cron rule', placeholder: 'Europe/Berlin' },
        { name: 'payload', label: 'Payload, as JSON', type: 'area', rows: 4 }],
      run: (v, reason) => page.act('schedule.set', {
        name: v.name, instance: v.instance || undefined, zone: v.zone || undefined, payload: v.payload.trim() ? parse(v.payload) : undefined,
        ...(/^\d+$/.test(v.rule.trim()) ? { every_ms: Number(v.rule) } : { cron: v.rule }),
      }, reason, { create: true }), done: () => refresh(),
    }),
    show: (r) => table([{ label: 'Schedule', class: 'wraps' }, 'When', { label: 'Next', class: 'num wraps' }, { label: 'Runs', class: 'num opt' }, { label: 'Last result', class: 'wraps opt' }, { label: 'Payload', class: 'grow opt' }, ''],
      r.schedules.map((s) => ({
        key: named(s), selected: chosen && named(chosen) === named(s), onopen: () => { chosen = s; runs.refresh(); schedules.render(); },
        cells: [named(s), when(s), time(s.next), number(s.runs ?? 0), [s.last_result ? badge(s.last_result) : '–', s.last_error ? h('div.bad', s.last_error) : null], s.payload === undefined ? '' : body(s.payload),
          h('span.verbs',
            verb('Run now', { small: true, title: 'Run ' + named(s) + ' now', text: 'Regular ticks are not affected.', run: (_, reason) => page.act('schedule.trigger', { name: s.name, instance: s.instance }, reason), done: refresh }),
            verb('Cancel', { small: true, danger: true, title: 'Cancel ' + named(s), text: 'The schedule and its history are removed.', run: (_, reason) => page.act('schedule.cancel', { name: s.name, instance: s.instance }, reason), done: refresh }))],
      })), { none: 'No schedules.', caption: 'Schedules' }),
  });
  const runs = page.section({
    title: 'Latest runs', cls: 'flush', load: async () => chosen ? page.call('schedule.runs', { name: chosen.name, instance: chosen.instance }) : { runs: [] },
    show: (r) => table([{ label: 'Run', class: 'num' }, 'Due', 'Started', { label: 'Took', class: 'num' }, 'Result', { label: 'Error', class: 'grow' }], r.runs.map((x) => ({
      key: x.run, cells: [x.run, moment(x.due), moment(x.started), span(new Date(x.finished) - new Date(x.started)), badge(x.result), x.error ?? ''],
    })), { none: chosen ? 'It has not run yet.' : 'Choose a schedule.' }),
  });
  const alarms = page.section({
    title: 'Alarms', cls: 'flush', load: () => page.call('alarm.list'),
    show: (r) => table([{ label: 'Alarm', class: 'grow' }, { label: 'Due', class: 'num' }, { label: '', class: 'num' }, { label: 'Attempts', class: 'num' }, ''], r.alarms.map((x) => ({
      key: named(x), cells: [named(x), moment(x.due), time(x.due), x.attempts ?? 0,
        h('span.verbs', verb('Run now', { small: true, title: 'Run ' + named(x) + ' now', text: 'It becomes due, and fires in the ordinary way.', run: (_, reason) => page.act('alarm.run', { name: x.name, instance: x.instance }, reason), done: refresh }),
          verb('Disarm', { small: true, danger: true, title: 'Disarm ' + named(x), run: (_, reason) => page.act('alarm.cancel', { name: x.name, instance: x.instance }, reason), done: refresh }))],
    })), { none: 'No alarm is armed.', caption: 'Alarms' }),
  });
  const refresh = () => { schedules.refresh(); alarms.refresh(); runs.refresh(); };
  page.part.append(alarms.el, schedules.el, runs.el);
}
