// SPDX-License-Identifier: Apache-2.0
// small_server SECONDS: serves requests that take different times. Some of them fail.
#include <stdlib.h>
#include <time.h>

#define FUNCTION __attribute__((noinline)) int

struct request {
  int number;
  const char* path;
};

static void wait_us(long microseconds) {
  struct timespec left = {.tv_sec = 0, .tv_nsec = microseconds * 1000};
  nanosleep(&left, NULL);
}

FUNCTION parse_request(const struct request* request) {
  volatile int sum = 0;
  for (int i = 0; i < request->number % 50 * 20; ++i) sum += i;
  return sum;
}

FUNCTION read_page(const struct request* request) {
  wait_us(300 + request->number % 7 * 200);
  return request->number % 40 == 0 ? -1 : request->number % 1000;
}

FUNCTION serve_request(const struct request* request) {
  const int parsed = parse_request(request);
  const int size = read_page(request);
  return size < 0 ? size : size + (parsed & 1);
}

int main(int argc, char** argv) {
  static const char* const paths[] = {"/index.html", "/cart", "/search?q=shoes", "/login"};
  const time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
  for (int number = 1; time(NULL) < end; ++number) {
    const struct request request = {number, paths[number % 4]};
    serve_request(&request);
  }
  return 0;
}
