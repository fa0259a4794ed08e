// SPDX-License-Identifier: Apache-2.0
// The lines are those of AOSP's documentation (source.android.com, "Diagnose native crashes"), of
// programs run for this test, and of perf 6.1.
#include <catch2/catch.hpp>

#include "symbolize/report_text.hpp"

namespace uprobectl::symbolize {

using Origin = ReportedFrame::Origin;

namespace {

std::optional<ReportedFrame> read_frame(std::string_view line) { return ReportReader().read(line); }

} // namespace

TEST_CASE("a frame of a tombstone has an ELF address, a file, a function and a build id") {
  const auto frame =
      read_frame("      #01 pc 000000000004c35c  /apex/com.android.runtime/lib64/bionic/"
                 "libc.so (abort+164) (BuildId: ABCD01)");
  REQUIRE(frame);
  CHECK(frame->origin == Origin::android);
  CHECK(frame->index == 1);
  CHECK(frame->number == 0x4c35c);
  CHECK(frame->path == "/apex/com.android.runtime/lib64/bionic/libc.so");
  CHECK_FALSE(frame->entry);
  CHECK_FALSE(frame->pc);
  CHECK(frame->function == "abort");
  CHECK(frame->function_offset == 164);
  CHECK(frame->build_id == "abcd01");
  CHECK(frame->column == 6);
}

TEST_CASE("a library in an APK has its name and the offset of its image") {
  const auto frame =
      read_frame("11-25 03:01:00.123  1234  1234 F DEBUG   :       #03 pc 0000000000001234  "
                 "/data/app/~~a==/com.foo-b==/base.apk!libfoo.so (offset 0x28000) "
                 "(ns::Foo::bar(int, char const*)+12) (BuildId: 0123456789abcdef)\r");
  REQUIRE(frame);
  CHECK(frame->path == "/data/app/~~a==/com.foo-b==/base.apk");
  CHECK(frame->entry == "libfoo.so");
  CHECK(frame->image_begin == FileOffset{0x28000});
  CHECK(frame->function == "ns::Foo::bar(int, char const*)");
  CHECK(frame->function_offset == 12);
  CHECK(frame->build_id == "0123456789abcdef");
  CHECK(frame->module_name() == "base.apk!/libfoo.so");
}

TEST_CASE("frames of ANR traces, of the Play Console and without a function are read") {
  const auto anr =
      read_frame("  native: #00 pc 000000000004c35c  /system/lib64/libc.so (syscall+28)");
  REQUIRE(anr);
  CHECK(anr->function == "syscall");
  const auto console =
      read_frame("  #02  pc 0x0000000000021e4c  /data/app/x/split_config.arm64_v8a.apk "
                 "(offset 0x28000)");
  REQUIRE(console);
  CHECK(console->number == 0x21e4c);
  CHECK(console->path == "/data/app/x/split_config.arm64_v8a.apk");
  CHECK(console->image_begin == FileOffset{0x28000});
  CHECK(console->function.empty());
  const auto arm = read_frame("    #00 pc 00007f5a  /system/lib/libfoo.so");
  REQUIRE(arm);
  CHECK(arm->number == 0x7f5a);
  CHECK_FALSE(arm->build_id);
}

TEST_CASE("a trimmed build id and a name that the report does not know are left out") {
  const auto trimmed = read_frame("  #01  pc 0x0000000000001234  libfoo.so (BuildId: ab01cd…)");
  REQUIRE(trimmed);
  CHECK(trimmed->path == "libfoo.so");
  CHECK_FALSE(trimmed->build_id);
  CHECK(trimmed->function.empty());
  const auto unknown = read_frame("  native: #05 pc 0000000000001234  /system/lib64/libart.so "
                                  "(\?\?\?)");
  REQUIRE(unknown);
  CHECK(unknown->path == "/system/lib64/libart.so");
  CHECK(unknown->function.empty());
}

TEST_CASE("a frame of a minidump has an offset in a library or in a function") {
  const auto innermost = read_frame(" 0  libfoo.so + 0x1234");
  REQUIRE(innermost);
  CHECK(innermost->origin == Origin::minidump);
  CHECK(innermost->path == "libfoo.so");
  CHECK(innermost->number == 0x1234);
  CHECK_FALSE(innermost->function_offset);
  CHECK_FALSE(innermost->is_return_address);
  CHECK(innermost->column == 1);
  const auto caller = read_frame("12  libfoo.so!ns::f(int, char const*) + 0x1c");
  REQUIRE(caller);
  CHECK(caller->index == 12);
  CHECK(caller->function == "ns::f(int, char const*)");
  CHECK(caller->function_offset == 0x1c);
  CHECK(caller->is_return_address);
  CHECK(caller->column == 0);
  for (const char* const line :
       {" 0  0x7f0012345678", " 1  libfoo.so!f [foo.cc : 12 + 0x4]", " 1  libfoo.so + 12",
        " 1 libfoo.so + 0x12", "11-25 03:01  a + 0x12", " 1  two words + 0x12", " 1  !f + 0x12"})
    CHECK_FALSE(read_frame(line));
}

TEST_CASE("a frame of lldb without a source has an offset in a function") {
  const auto frame = read_frame("  * frame #1: 0x0000007f12345678 libfoo.so`ns::f(int) + 28");
  REQUIRE(frame);
  CHECK(frame->origin == Origin::minidump);
  CHECK(frame->index == 1);
  CHECK(frame->pc == 0x7f12345678);
  CHECK(frame->path == "libfoo.so");
  CHECK(frame->function == "ns::f(int)");
  CHECK(frame->function_offset == 28);
  CHECK(frame->is_return_address);
  CHECK_FALSE(read_frame("    frame #2: 0x00007f12345678 libfoo.so`f(x=1) at foo.c:7:13"));
}

TEST_CASE("memory without a file is not a file") {
  for (const char* const line :
       {"  #05 pc 0000000000001234  [anon:dalvik-jit-code-cache] (com.foo.Bar.baz+12)",
        "  #05 pc 0000000000001234  <anonymous:7a12345000>", "  #05 pc 0000000000001234  <unknown>",
        "  #05 pc 0000000000001234  /memfd:jit-cache (deleted) (com.foo.Bar.baz+12)"}) {
    const auto frame = read_frame(line);
    REQUIRE(frame);
    CHECK_FALSE(frame->names_file());
  }
  const auto deleted =
      read_frame("  #5 pc 1234  /data/x/libfoo.so (deleted) (offset 0x1000) (f+1)");
  REQUIRE(deleted);
  CHECK(deleted->names_file());
  CHECK(deleted->path == "/data/x/libfoo.so");
  CHECK(deleted->image_begin == FileOffset{0x1000});
  CHECK(deleted->function == "f");
  const auto entry = read_frame("  #5 pc 1234  /data/x/base.apk!libfoo.so (deleted) (f+1)");
  REQUIRE(entry);
  CHECK(entry->path == "/data/x/base.apk");
  CHECK(entry->entry == "libfoo.so");
  CHECK(entry->function == "f");
}

TEST_CASE("the offset of a frame in an ANR trace has no 0x") {
  const auto named =
      read_frame("  native: #29 pc 00481386  /data/app/x/base.apk (offset 2743000) (a.a.c+34)");
  REQUIRE(named);
  CHECK(named->path == "/data/app/x/base.apk");
  CHECK(named->image_begin == FileOffset{0x2743000});
  CHECK(named->function == "a.a.c");
  CHECK(named->function_offset == 34);
  const auto unnamed =
      read_frame("  native: #01 pc 0000000000004109  /data/app/x/base.apk (offset 4000) (\?\?\?)");
  REQUIRE(unnamed);
  CHECK(unnamed->image_begin == FileOffset{0x4000});
  CHECK(unnamed->function.empty());
}

TEST_CASE("a frame of a sanitizer has the run-time address and the ELF address") {
  const auto frame =
      read_frame("    #1 0x55dc9288cf15  (/tmp/use+0x10df15) (BuildId: 0910afed20de65fa)");
  REQUIRE(frame);
  CHECK(frame->origin == Origin::sanitizer);
  CHECK(frame->index == 1);
  CHECK(frame->pc == 0x55dc9288cf15);
  CHECK(frame->number == 0x10df15);
  CHECK_FALSE(frame->is_return_address);
  CHECK(frame->path == "/tmp/use");
  CHECK(frame->build_id == "0910afed20de65fa");
  const auto named = read_frame("#3 0x7f78c0045249 in f(int) (/data/app/x/base.apk!/lib/arm64-v8a/"
                                "libfoo.so+0x27249)");
  REQUIRE(named);
  CHECK(named->function == "f(int)");
  CHECK(named->entry == "lib/arm64-v8a/libfoo.so");
  CHECK_FALSE(read_frame("    #1 0x55e628e391d7 in mid /tmp/symtry/a.cpp:4"));
}

TEST_CASE("a frame of perf script has a number that may be a return address") {
  ReportReader reader;
  CHECK_FALSE(reader.read("p 24993  1415.816074:   20000000 cpu-clock:ppp: "));
  const auto innermost = reader.read("\t            1138 spin+0xf (/tmp/p)");
  REQUIRE(innermost);
  CHECK(innermost->origin == Origin::perf);
  CHECK(innermost->number == 0x1138);
  CHECK(innermost->function == "spin");
  CHECK(innermost->function_offset == 0xf);
  CHECK(innermost->path == "/tmp/p");
  CHECK_FALSE(innermost->is_return_address);
  const auto inlined = reader.read("\t            1150 mid+0x8 (inlined)");
  REQUIRE(inlined);
  CHECK_FALSE(inlined->names_file());
  CHECK_FALSE(reader.read("  p.c:4"));
  const auto caller = reader.read("\t            1150 ns::work(int)+0x8 (/tmp/p+0x1150)");
  REQUIRE(caller);
  CHECK(caller->is_return_address);
  CHECK(caller->index == 1);
  CHECK(caller->function == "ns::work(int)");
  CHECK(caller->in_file == 0x1150);
  CHECK(caller->path == "/tmp/p");
  CHECK_FALSE(reader.read(""));
  CHECK_FALSE(reader.read("\t            117f [unknown] (/tmp/p)")->is_return_address);
}

TEST_CASE("perf: what a signal interrupted and what called the kernel is not a return address") {
  ReportReader reader;
  CHECK_FALSE(
      reader.read("\tffffffff8225a6c1 do_syscall_64+0x71 ([kernel.kallsyms])")->names_file());
  CHECK_FALSE(reader.read("\t           1ab70 write+0x14 (/lib/libc.so.6)")->is_return_address);
  CHECK_FALSE(
      reader.read("\t           3c050 __restore_rt+0x0 (/lib/libc.so.6)")->is_return_address);
  CHECK_FALSE(reader.read("\t            1138 spin+0xf (/tmp/p)")->is_return_address);
  CHECK(reader.read("\t            1150 main+0x8 (/tmp/p)")->is_return_address);
}

TEST_CASE("other lines have no frame") {
  for (const char* const line :
       {"", "backtrace:", "#00", "#00 pc", "#00 pc ", "#00 pc xyz  /a", "#00 pc 12",
        "#00 pc 12g  /a", "#0  0x000055555555513d in main () at p.c:3", "# 1 (a+0x1)",
        "x#00 pc 12  /a", "#1 0x12 (/a+0x)", "#1 0x12 /a+0x1)", "#1 0x12 (+0x1)",
        "  abc def (/etc/passwd)", "#18446744073709551616 pc 12  /a"})
    CHECK_FALSE(read_frame(line));
  CHECK_FALSE(read_frame(std::string(max_report_line, ' ') + "#00 pc 12  /a"));
}

TEST_CASE("frames have the version of Android of the fingerprint above them") {
  const char* const frame = "    #00 pc 0000000000004e5c  /data/app/x/lib/arm64/libbig.so";
  ReportReader reader;
  CHECK_FALSE(reader.read(frame)->android_version);
  CHECK_FALSE(
      reader.read("Build fingerprint: 'google/walleye/walleye:8.1.0/OPM2/1:user/release-keys'"));
  CHECK(reader.read(frame)->android_version == 8);
  CHECK_FALSE(reader.read("ABI: 'arm64'"));
  CHECK(reader.read(frame)->android_version == 8);
  CHECK_FALSE(
      reader.read("11-25 03:01:00.1  1  1 F DEBUG : Build fingerprint: 'a/b/c:11/R/2:user/keys'"));
  CHECK(reader.read(frame)->android_version == 11);
  CHECK_FALSE(reader.read("Build fingerprint: 'a/b/c:Baklava/B/2:user/keys'")); // a preview
  CHECK_FALSE(reader.read(frame)->android_version);
}

} // namespace uprobectl::symbolize
