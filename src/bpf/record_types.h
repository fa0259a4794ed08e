/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The integers of records, by the same names in C and C++. */
#pragma once

#ifdef __cplusplus
#include <cstdint>
namespace uprobectl {
using record_u8 = std::uint8_t;
using record_u16 = std::uint16_t;
using record_u32 = std::uint32_t;
using record_u64 = std::uint64_t;
using record_s32 = std::int32_t;
using record_s64 = std::int64_t;
#else
typedef unsigned char record_u8;
typedef unsigned short record_u16;
typedef unsigned int record_u32;
typedef unsigned long long record_u64;
typedef int record_s32;
typedef long long record_s64;
#endif

#ifdef __cplusplus
} // namespace uprobectl
#endif
