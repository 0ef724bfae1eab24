// Numbers, times and sizes as text.
export function number(value, digits = 0) {
  return Number(value ?? 0).toLocaleString("en-US", { maximumFractionDigits: digits });
}

export function percent(part) {
  return part === null || part === undefined || Number.isNaN(part) ? "–" : `${Math.round(part * 100)} %`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const all = Math.max(0, Math.floor(seconds));
  const days = Math.floor(all / 86400), hours = Math.floor(all / 3600) % 24, minutes = Math.floor(all / 60) % 60;
  if (days) return hours ? `${days}d ${hours}h` : `${days}d`;
  if (hours) return minutes ? `${hours}h ${minutes}m` : `${hours}h`;
  if (minutes) return all % 60 ? `${minutes}m ${all % 60}s` : `${minutes}m`;
  return seconds < 10 && seconds % 1 ? `${seconds.toFixed(1)}s` : `${all}s`;
}

export function short(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 60 ? `${seconds.toFixed(seconds < 10 ? 2 : 1)} s` : duration(seconds);
}

export function memory(mb) {
  if (mb === null || mb === undefined) return "–";
  return mb >= 1024 ? `${(mb / 1024).toFixed(mb >= 10240 ? 0 : 1)} GB` : `${mb} MB`;
}

export function gpuHours(seconds) {
  const hours = (seconds ?? 0) / 3600;
  return number(hours, hours < 10 ? 2 : hours < 100 ? 1 : 0);
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export function seconds(value) {
  if (value === null || value === undefined || value === "") return null;
  return typeof value === "number" ? value : Date.parse(value) / 1000;
}

export function moment(value) {
  const at = seconds(value);
  if (at === null || Number.isNaN(at)) return "–";
  const when = new Date(at * 1000);
  return when.toDateString() === new Date().toDateString() ? TIME.format(when) : DAY.format(when);
}

export function minute(at) {
  return MINUTE.format(new Date(at * 1000));
}

export function ago(at, now) {
  return at === null ? "–" : `${duration(Math.max(0, now - at))} ago`;
}

export function plural(count, word) {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

export function figure(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

export const ACTIVE = ["starting", "running", "stopping"];
export const ENDED = ["done", "failed", "cancelled"];
