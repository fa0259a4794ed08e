#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""span_locks.py UPROBECTL
The spans of --span locks against a program that takes a known number of locks: some are not taken, several readers
hold one at a time. Needs root. Prints TAP."""

import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <threads.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t held, tried, readers;
static sem_t semaphore;
static mtx_t c11;
static void* hold(void* data) {
  pthread_mutex_lock(&mutex);
  pthread_barrier_wait(&held);
  pthread_barrier_wait(&tried);
  pthread_mutex_unlock(&mutex);
  return data;
}
static void* take(void* data) {
  pthread_rwlock_rdlock(&rwlock);
  pthread_barrier_wait(&readers); /* all three hold it */
  pthread_rwlock_unlock(&rwlock);
  return data;
}
int main(void) {
  pthread_t threads[3];
  pthread_barrier_init(&held, NULL, 2);
  pthread_barrier_init(&tried, NULL, 2);
  pthread_barrier_init(&readers, NULL, 3);
  sem_init(&semaphore, 0, 4);
  mtx_init(&c11, mtx_plain);
  for (int i = 0; i < 10; i++) pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex);
  for (int i = 0; i < 5; i++)
    if (pthread_mutex_trylock(&mutex) == 0) pthread_mutex_unlock(&mutex);
  pthread_create(&threads[0], NULL, hold, NULL);
  pthread_barrier_wait(&held);
  for (int i = 0; i < 7; i++)
    if (pthread_mutex_trylock(&mutex) == 0) return 1;
  pthread_barrier_wait(&tried);
  pthread_join(threads[0], NULL);
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, take, NULL);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock);
  if (pthread_rwlock_tryrdlock(&rwlock) != 0) return 1;
  for (int i = 0; i < 4; i++)
    if (pthread_rwlock_trywrlock(&rwlock) == 0) return 1;
  pthread_rwlock_unlock(&rwlock);
  for (int i = 0; i < 4; i++) sem_wait(&semaphore);
  for (int i = 0; i < 3; i++) mtx_lock(&c11), mtx_unlock(&c11);
  printf("{\"mutex\":\"%p\",\"rwlock\":\"%p\",\"semaphore\":\"%p\",\"c11\":\"%p\"}\n", (void*)&mutex,
         (void*)&rwlock, (void*)&semaphore, (void*)&c11);
  return 0;
}
"""


def check(folder):
    program = os.path.join(folder, "locks")
    Path(program + ".c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-pthread", "-o", program, program + ".c"], check=True)
    done = subprocess.run([UPROBECTL, "attach", "-j", "-d", "60s", "--command-output", program + ".log", "--span", "locks",
                           "libc.so.6", "--", program], capture_output=True, text=True, timeout=120)
    locks = json.loads(Path(program + ".log").read_text())
    names = {address: name for name, address in locks.items()}
    held, waited, threads = collections.Counter(), collections.Counter(), collections.defaultdict(set)
    summaries = {}
    for record in map(json.loads, done.stdout.splitlines()):
        if record["type"] == "span_summary":
            summaries[record["name"]] = record
        if record["type"] != "span":
            continue
        if record["name"].endswith("-hold") and record["key"] in names:
            held[names[record["key"]]] += 1
            threads[names[record["key"]]].add(record["tid"])
        if record["name"].endswith("-wait"):
            address = record["arguments"][0]["value"]
            if address in names:
                waited[names[address]] += 1
    if done.returncode != 0:
        print("# " + done.stderr.replace("\n", "\n# "))
    TAP.check("each lock that was taken is held, and no other one",
              [] if held == {"mutex": 16, "c11": 3, "rwlock": 6} else [str(held)])
    TAP.check("readers hold a lock at the same time", [] if len(threads["rwlock"]) == 4 else [str(threads)])
    TAP.check("each wait ends", [] if waited == {"mutex": 11, "c11": 3, "rwlock": 5, "semaphore": 4}
              else [str(waited)])
    failed = {name: summaries.get(name, {}).get("null_keys") for name in ("mutex-hold", "rwlock-hold")}
    TAP.check("locks that were not taken are counted",
              [] if failed == {"mutex-hold": 7, "rwlock-hold": 4} else [str(failed)])
    TAP.check("nothing was lost", [f"{name}: {each}" for name, each in summaries.items() if each["unread_keys"] > 0])


def main():
    with tempfile.TemporaryDirectory() as folder:
        check(folder)
    TAP.done()


main()
