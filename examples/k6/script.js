// A shop visit with k6. shop.toml in this directory is the same load with `thruway bench scenario`.
//
// k6 run script.js
import http from 'k6/http';
import { check, sleep } from 'k6';
import { SharedArray } from 'k6/data';

const users = new SharedArray('users', () =>
  open('users.csv').trim().split('\n').slice(1).map((line) => ({ name: line.split(',')[0] })));

export const options = {
  vus: 20,
  duration: '5s',
  thresholds: {
    'http_req_duration{name:login}': ['p(99)<200'],
    http_req_failed: ['rate<0.01'],
  },
};

const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';

export default function () {
  const user = users[__ITER % users.length];
  const login = http.post(`${base}/echo`, JSON.stringify({ user: user.name, token: Math.random().toString(16) }), {
    headers: { 'Content-Type': 'application/json' },
    tags: { name: 'login' },
  });
  check(login, { 'login succeeds': (response) => response.status === 200 });
  const token = login.json('token');
  sleep(0.01 + Math.random() * 0.04);

  const orders = http.get(`${base}/json?user=${encodeURIComponent(user.name)}`, {
    headers: { Authorization: `Bearer ${token}` },
    tags: { name: 'orders' },
  });
  check(orders, { 'orders arrive': (response) => response.status === 200 });
}
