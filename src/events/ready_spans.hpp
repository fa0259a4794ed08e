// SPDX-License-Identifier: Apache-2.0
// The spans that `--span NAME` means without FROM and TO.
#pragma once

#include <array>
#include <string_view>

namespace uprobectl::events {

struct ReadySpan {
  std::string_view name; // of --span
  std::string_view text; // NAME=FROM..TO:KEY, without TARGET
};

// A run probes those functions of each span that TARGET has. The list leaves out functions that
// only call another one of it in the same library, such as reallocarray() and operator new[]: they
// would begin a span twice.
inline constexpr std::array ready_spans = {
    ReadySpan{"heap", "heap=malloc..free:ret/arg0"},
    ReadySpan{"heap", "heap=calloc..free:ret/arg0"},
    ReadySpan{"heap", "heap=realloc..realloc:ret/arg0"},
    ReadySpan{"heap", "heap=memalign..free:ret/arg0"},
    ReadySpan{"heap", "heap=aligned_alloc..free:ret/arg0"},
    ReadySpan{"heap", "heap=posix_memalign%return..free:*arg0/arg0"},
    ReadySpan{"heap", "heap=valloc..free:ret/arg0"},
    ReadySpan{"heap", "heap=pvalloc..free:ret/arg0"},
    // The C++ library, if it is TARGET: operator new and delete.
    ReadySpan{"heap", "heap=_Znwm.._ZdlPv:ret/arg0"},
    ReadySpan{"heap", "heap=_ZnwmSt11align_val_t.._ZdlPvSt11align_val_t:ret/arg0"},
    // jemalloc, with and without its prefix.
    ReadySpan{"heap", "heap=mallocx..dallocx:ret/arg0"},
    ReadySpan{"heap", "heap=rallocx..rallocx:ret/arg0"},
    ReadySpan{"heap", "heap=rallocx..sdallocx:ret/arg0"},
    ReadySpan{"heap", "heap=je_malloc..je_free:ret/arg0"},
    ReadySpan{"heap", "heap=je_calloc..je_free:ret/arg0"},
    ReadySpan{"heap", "heap=je_realloc..je_realloc:ret/arg0"},
    ReadySpan{"heap", "heap=je_memalign..je_free:ret/arg0"},
    ReadySpan{"heap", "heap=je_aligned_alloc..je_free:ret/arg0"},
    ReadySpan{"heap", "heap=je_posix_memalign%return..je_free:*arg0/arg0"},
    // scudo of Android
    ReadySpan{"heap", "heap=scudo_malloc..scudo_free:ret/arg0"},
    ReadySpan{"heap", "heap=scudo_calloc..scudo_free:ret/arg0"},
    ReadySpan{"heap", "heap=scudo_realloc..scudo_realloc:ret/arg0"},
    ReadySpan{"heap", "heap=scudo_memalign..scudo_free:ret/arg0"},
    ReadySpan{"heap", "heap=scudo_aligned_alloc..scudo_free:ret/arg0"},
    ReadySpan{"heap", "heap=scudo_posix_memalign%return..scudo_free:*arg0/arg0"},

    // C11's mtx_lock() and cnd_wait(), and the locks of C++, call these. A lock that was not taken
    // is not held: not all return 0. Those with _np are of bionic.
    ReadySpan{"locks", "mutex-wait=pthread_mutex_lock..pthread_mutex_lock%return:thread"},
    ReadySpan{"locks", "mutex-wait=pthread_mutex_timedlock..pthread_mutex_timedlock%return:thread"},
    ReadySpan{"locks", "mutex-wait=pthread_mutex_clocklock..pthread_mutex_clocklock%return:thread"},
    ReadySpan{"locks", "mutex-wait=pthread_mutex_timedlock_monotonic_np.."
                       "pthread_mutex_timedlock_monotonic_np%return:thread"},
    ReadySpan{"locks", "mutex-hold=pthread_mutex_lock%return=0..pthread_mutex_unlock:arg0"},
    ReadySpan{"locks", "mutex-hold=pthread_mutex_trylock%return=0..pthread_mutex_unlock:arg0"},
    ReadySpan{"locks", "mutex-hold=pthread_mutex_timedlock%return=0..pthread_mutex_unlock:arg0"},
    ReadySpan{"locks", "mutex-hold=pthread_mutex_clocklock%return=0..pthread_mutex_unlock:arg0"},
    ReadySpan{
        "locks",
        "mutex-hold=pthread_mutex_timedlock_monotonic_np%return=0..pthread_mutex_unlock:arg0"},
    // A thread that waits for a condition does not hold the mutex.
    ReadySpan{"locks", "mutex-hold=pthread_cond_wait%return..pthread_cond_wait:arg1"},
    ReadySpan{"locks", "mutex-hold=pthread_cond_timedwait%return..pthread_cond_timedwait:arg1"},
    ReadySpan{"locks", "mutex-hold=pthread_cond_clockwait%return..pthread_cond_clockwait:arg1"},
    ReadySpan{"locks", "mutex-hold=pthread_cond_timedwait_monotonic_np%return.."
                       "pthread_cond_timedwait_monotonic_np:arg1"},
    ReadySpan{"locks", "rwlock-wait=pthread_rwlock_wrlock..pthread_rwlock_wrlock%return:thread"},
    ReadySpan{"locks",
              "rwlock-wait=pthread_rwlock_timedwrlock..pthread_rwlock_timedwrlock%return:thread"},
    ReadySpan{"locks",
              "rwlock-wait=pthread_rwlock_clockwrlock..pthread_rwlock_clockwrlock%return:thread"},
    ReadySpan{"locks", "rwlock-wait=pthread_rwlock_timedwrlock_monotonic_np.."
                       "pthread_rwlock_timedwrlock_monotonic_np%return:thread"},
    ReadySpan{"locks", "rwlock-wait=pthread_rwlock_rdlock..pthread_rwlock_rdlock%return:thread"},
    ReadySpan{"locks",
              "rwlock-wait=pthread_rwlock_timedrdlock..pthread_rwlock_timedrdlock%return:thread"},
    ReadySpan{"locks",
              "rwlock-wait=pthread_rwlock_clockrdlock..pthread_rwlock_clockrdlock%return:thread"},
    ReadySpan{"locks", "rwlock-wait=pthread_rwlock_timedrdlock_monotonic_np.."
                       "pthread_rwlock_timedrdlock_monotonic_np%return:thread"},
    // Several readers may hold it at a time.
    ReadySpan{"locks",
              "rwlock-hold=pthread_rwlock_wrlock%return=0..pthread_rwlock_unlock:arg0+thread"},
    ReadySpan{"locks",
              "rwlock-hold=pthread_rwlock_timedwrlock%return=0..pthread_rwlock_unlock:arg0+thread"},
    ReadySpan{"locks",
              "rwlock-hold=pthread_rwlock_clockwrlock%return=0..pthread_rwlock_unlock:arg0+thread"},
    ReadySpan{"locks", "rwlock-hold=pthread_rwlock_timedwrlock_monotonic_np%return=0.."
                       "pthread_rwlock_unlock:arg0+thread"},
    ReadySpan{"locks",
              "rwlock-hold=pthread_rwlock_rdlock%return=0..pthread_rwlock_unlock:arg0+thread"},
    ReadySpan{"locks",
              "rwlock-hold=pthread_rwlock_timedrdlock%return=0..pthread_rwlock_unlock:arg0+thread"},
    ReadySpan{"locks",
              "rwlock-hold=pthread_rwlock_clockrdlock%return=0..pthread_rwlock_unlock:arg0+thread"},
    ReadySpan{"locks", "rwlock-hold=pthread_rwlock_timedrdlock_monotonic_np%return=0.."
                       "pthread_rwlock_unlock:arg0+thread"},
    ReadySpan{"locks",
              "rwlock-hold=pthread_rwlock_trywrlock%return=0..pthread_rwlock_unlock:arg0+thread"},
    ReadySpan{"locks",
              "rwlock-hold=pthread_rwlock_tryrdlock%return=0..pthread_rwlock_unlock:arg0+thread"},
    // Any thread may post it, so that nobody holds it.
    ReadySpan{"locks", "semaphore-wait=sem_wait..sem_wait%return:thread"},
    ReadySpan{"locks", "semaphore-wait=sem_timedwait..sem_timedwait%return:thread"},
    ReadySpan{"locks", "semaphore-wait=sem_clockwait..sem_clockwait%return:thread"},
    ReadySpan{
        "locks",
        "semaphore-wait=sem_timedwait_monotonic_np..sem_timedwait_monotonic_np%return:thread"},

    ReadySpan{"files", "files=open..close:ret/arg0"},
    ReadySpan{"files", "files=open64..close:ret/arg0"},
    ReadySpan{"files", "files=openat..close:ret/arg0"},
    ReadySpan{"files", "files=openat64..close:ret/arg0"},
    ReadySpan{"files", "files=creat..close:ret/arg0"},
    ReadySpan{"files", "files=creat64..close:ret/arg0"},
    ReadySpan{"files", "files=dup..close:ret/arg0"},
    ReadySpan{"files", "files=socket..close:ret/arg0"},
    ReadySpan{"files", "files=accept..close:ret/arg0"},
    ReadySpan{"files", "files=accept4..close:ret/arg0"},
    ReadySpan{"files", "files=epoll_create1..close:ret/arg0"},
    ReadySpan{"files", "files=eventfd..close:ret/arg0"},
    ReadySpan{"files", "files=memfd_create..close:ret/arg0"},
};

// Whether the function is called by malloc() and its like of the same file, if that has them:
// bionic's libc.so contains scudo or jemalloc. Their blocks would begin two spans.
constexpr bool is_inner_allocator(std::string_view function) {
  return function.starts_with("scudo_") || function.starts_with("je_");
}

} // namespace uprobectl::events
