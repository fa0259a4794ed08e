// SPDX-License-Identifier: Apache-2.0
// What is to be done before a fault or an abort ends the process.
#pragma once

namespace uprobectl {

// Installs handlers for the signals that end the process with an error. They run the hook, then the
// signal has the effect that it had before. Call it once, before other handlers are installed.
void handle_crashes();

// `wanted` may only do what is async-signal-safe, and is called in any thread, once; null: nothing.
void set_crash_hook(void (*wanted)());
// Runs the hook in a handler that ends the process itself. Async-signal-safe.
void run_crash_hook();

} // namespace uprobectl
