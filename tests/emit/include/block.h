// Runs the threads of one block on the host, as fibers: a thread runs until it waits for its block or its warp.
// Threads that wait at different places, or that leave while others wait, end the program with a message.
#pragma once
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace block {

struct Index {
  int x = 0, y = 0, z = 0;
};

enum State { RUNNING, AT_BARRIER, AT_WARP, DONE };

inline Index group;             // the block that runs
inline int warp_size = 32;      // threads in step
inline int current = 0;         // the thread that runs
inline std::vector<State> states;
inline std::vector<ucontext_t> fibers;
inline ucontext_t scheduler;
inline std::function<void()> body;
inline std::vector<unsigned char> slots;  // 64 bytes of a thread, for exchange inside its warp

inline void fail(const char* what) {
  std::printf("FAILED thread %d of block %d: %s\n", current, group.x, what);
  std::exit(1);
}

inline void wait(State state) {
  states[current] = state;
  swapcontext(&fibers[current], &scheduler);
}

inline void barrier() { wait(AT_BARRIER); }
inline void warp_sync() { wait(AT_WARP); }
inline int lane() { return current % warp_size; }

// Every lane gives a value; what lane k gave is `of(k)` until the next exchange of the warp.
template <typename T> void give(const T& value, int slot = 0) {
  static_assert(sizeof(T) <= 32, "slot");
  __builtin_memcpy(&slots[current * 64 + slot * 32], &value, sizeof(T));
}
template <typename T> T of(int lane, int slot = 0) {
  T value;
  __builtin_memcpy(&value, &slots[(current / warp_size * warp_size + lane) * 64 + slot * 32], sizeof(T));
  return value;
}

inline void entry() {
  body();
  states[current] = DONE;
  swapcontext(&fibers[current], &scheduler);
}

// Let the threads [first, end) of a warp run until they all wait for the block or are done.
inline void run_warp(int first, int end) {
  for (;;) {
    int warp = 0, others = 0;
    for (current = first; current < end; ++current) {
      if (states[current] == RUNNING) swapcontext(&scheduler, &fibers[current]);
      (states[current] == AT_WARP ? warp : others)++;
    }
    current = first;
    if (warp == 0) return;
    if (others) fail("some threads of the warp exchange data, others wait elsewhere");
    for (int t = first; t < end; ++t) states[t] = RUNNING;
  }
}

inline void run(int threads, std::function<void()> thread_body) {
  body = std::move(thread_body);
  constexpr int stack = 128 * 1024;
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (int(stacks.size()) < threads) stacks.emplace_back(new char[stack]);
  states.assign(threads, RUNNING);
  fibers.resize(threads);
  slots.assign(threads * 64, 0);
  for (int t = 0; t < threads; ++t) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks[t].get();
    fibers[t].uc_stack.ss_size = stack;
    fibers[t].uc_link = &scheduler;
    makecontext(&fibers[t], entry, 0);
  }
  for (;;) {
    for (int first = 0; first < threads; first += warp_size)
      run_warp(first, first + warp_size < threads ? first + warp_size : threads);
    int done = 0;
    for (State s : states) done += s == DONE;
    if (done == threads) return;
    current = 0;
    if (done) fail("some threads wait at a barrier that others never reach");
    for (State& s : states) s = RUNNING;
  }
}

// `grid` blocks, one after the other; shared memory is static, so no two may run at once.
template <typename Kernel> void launch(Index grid, int threads, Kernel kernel) {
  for (group.z = 0; group.z < grid.z; ++group.z)
    for (group.y = 0; group.y < grid.y; ++group.y)
      for (group.x = 0; group.x < grid.x; ++group.x) run(threads, kernel);
}

// Arrays travel in files: no formatting between the kernel and numpy.
template <typename T> std::vector<T> read(const char* path) {
  std::FILE* f = std::fopen(path, "rb");
  std::fseek(f, 0, SEEK_END);
  std::vector<T> data(std::ftell(f) / sizeof(T));
  std::rewind(f);
  if (std::fread(data.data(), sizeof(T), data.size(), f) != data.size()) fail(path);
  std::fclose(f);
  return data;
}
template <typename T> void write(const char* path, const std::vector<T>& data) {
  std::FILE* f = std::fopen(path, "wb");
  std::fwrite(data.data(), sizeof(T), data.size(), f);
  std::fclose(f);
}

}  // namespace block
