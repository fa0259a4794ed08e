// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/task_file.hpp"
#include "uprobestats/task_processes.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::uprobestats {

namespace {

Policy policy(std::string_view text) {
  auto parsed = Policy::parse(text);
  REQUIRE(parsed);
  return std::move(*parsed);
}

std::string policy_fault_of(std::string_view text) {
  const auto parsed = Policy::parse(text);
  REQUIRE_FALSE(parsed);
  return parsed.error().message;
}

} // namespace

TEST_CASE("a prefix allows itself and what follows '.', '$' or '('") {
  const Policy rules = policy("com.foo.Bar\ncom.foo.Baz.go\n");
  for (const char* const allowed :
       {"com.foo.Bar", "com.foo.Bar.x", "com.foo.Bar$Inner.x(int)", "com.foo.Baz.go",
        "com.foo.Baz.go()", "com.foo.Baz.go(int, a.B)"})
    CHECK(rules.find_prefix(allowed));
  for (const char* const refused :
       {"com.foo.BarWithSomeSuffix.x", "com.foo.Ba", "com.foo", "com.foo.Baz.gone()",
        "xcom.foo.Bar", "com.foo.Baz", "com.foo.Bar+0x10", ""})
    CHECK_FALSE(rules.find_prefix(refused));
  CHECK(rules.find_prefix("com.foo.Baz.go()") == "com.foo.Baz.go");
}

TEST_CASE("the built-in policy is that of UprobeStats") {
  const Policy rules = Policy::builtin();
  CHECK(rules.find_prefix("com.android.server.am.OomAdjuster.setUidTempAllowlistStateLSP(int, "
                          "boolean)"));
  CHECK(rules.find_prefix("com.android.server.am.OomAdjusterModernImpl.x()"));
  CHECK(rules.find_prefix("com.android.server.am.CachedAppOptimizer$Inner.x()"));
  CHECK(rules.find_prefix("com.android.server.am.ActivityManagerService$LocalService."
                          "updateDeviceIdleTempAllowlist(int[])"));
  CHECK_FALSE(rules.find_prefix("com.android.server.am.OomAdjusterWithSomeSuffix.x()"));
  CHECK_FALSE(
      rules.find_prefix("com.android.server.am.ActivityManagerService$LocalService.other()"));
  CHECK_FALSE(rules.find_prefix("com.android.server.am.BatteryStatsService.noteEvent(int)"));
}

TEST_CASE("the built-in policies of Android 15 and 16 differ in what they allow") {
  const Policy early = Policy::builtin(Service::android15);
  const Policy late = Policy::builtin(Service::android16);
  for (const char* const both :
       {"com.android.server.am.OomAdjuster.x()", "com.android.server.am.CachedAppOptimizer.x()",
        "com.android.server.am.ActivityManagerService$LocalService."
        "updateDeviceIdleTempAllowlist(int[])"}) {
    CHECK(early.find_prefix(both));
    CHECK(late.find_prefix(both));
  }
  for (
      const char* const only_late :
      {"com.android.server.am.ActiveServices.bindServiceLocked(int)",
       "com.android.server.pm.PackageManagerService$IPackageManagerImpl.setComponentEnabledSetting",
       "com.android.server.pm.permission.PermissionManagerService.grantRuntimePermission()"}) {
    CHECK_FALSE(early.find_prefix(only_late));
    CHECK(late.find_prefix(only_late));
  }
  CHECK(late.allows_program("prog_Accessibility_uprobe_dispatch_gesture"));
  CHECK_FALSE(late.allows_program("prog_Accessibility_uprobe_grant_runtime_permission"));
  CHECK_FALSE(early.allows_program("prog_Accessibility_uprobe_dispatch_gesture"));
  CHECK_FALSE(policy("com.foo").allows_program("prog_Accessibility_uprobe_dispatch_gesture"));
}

TEST_CASE("a policy has comments and empty lines, and allows nothing without prefixes") {
  const Policy rules = policy("# a comment\n\n  com.foo.Bar   # why\r\n\tcom.foo.Baz.f(int, long)");
  CHECK(rules.find_prefix("com.foo.Bar.x"));
  CHECK(rules.find_prefix("com.foo.Baz.f(int, long)"));
  CHECK(rules.find_prefix("com.foo.Baz.f(int,long)"));
  CHECK_FALSE(rules.find_prefix("com.foo.Baz.f(int)"));
  CHECK(rules.has_overload("com.foo.Baz.f"));
  CHECK_FALSE(rules.has_overload("com.foo.Bar"));
  CHECK_FALSE(policy("# nothing\n").find_prefix("com.foo.Bar.x"));
}

TEST_CASE("a prefix that cannot match is reported with its line") {
  CHECK(policy_fault_of("a.B\ncom.foo.\n") ==
        "line 2: invalid prefix 'com.foo.': remove the trailing '.' or '$'");
  CHECK(policy_fault_of("com.foo.*") ==
        "line 1: invalid prefix 'com.foo.*': patterns are not supported");
  CHECK(policy_fault_of("void com.foo.Bar.x()") ==
        "line 1: invalid prefix 'void com.foo.Bar.x()': it contains a blank");
  CHECK(policy_fault_of(std::string_view("a\0b", 3)) == "line 1: a control character in a prefix");
}

TEST_CASE("a refusal names the policy and the prefix that does not reach") {
  const Policy rules = policy("com.foo.Bar\ncom.foo.B\n");
  const Error error = rules.make_refusal("com.foo.Bars.x()", "policy p");
  CHECK(error.kind == ErrorKind::not_permitted);
  CHECK(error.message == "'com.foo.Bars.x()' is rejected by policy p: it matches none of the 2 "
                         "allowed prefixes");
  CHECK(error.hints ==
        std::vector<std::string>{
            "'com.foo.Bar' matches itself, and names that continue it with '.', '$' or '('"});
  CHECK(rules.make_refusal("x.Y", "policy p").hints.empty());
}

TEST_CASE("a signature without its return type is the method's name") {
  CHECK(uprobestats::without_return_type("void com.foo.Bar.baz(int, long)") ==
        "com.foo.Bar.baz(int, long)");
  CHECK(uprobestats::without_return_type("com.foo.Bar.baz") == "com.foo.Bar.baz");
  CHECK(uprobestats::without_return_type("a.B[] a.C.d()") == "a.C.d()");
}

TEST_CASE("a compiled file is known for its jar") {
  CHECK(jar_name("/system/framework/oat/arm64/services.odex") == "services");
  CHECK(jar_name("/data/dalvik-cache/arm64/system@framework@services.jar@classes.odex") ==
        "services");
  CHECK(jar_name("/data/dalvik-cache/arm64/system@app@A.B@A.B.apk@classes.dex") == "A.B");
  CHECK(jar_name("/system/framework/arm64/boot-framework.oat") == "boot-framework");
  CHECK(jar_name("/system/lib64/libc.so").empty());
  CHECK(jar_name("[heap]").empty());
}

TEST_CASE("every app has a base.apk: only those of one package are the same") {
  constexpr std::string_view ours = "/data/app/~~a==/com.foo-b-c==/oat/arm64/base.odex";
  CHECK(package_name(ours) == "com.foo");
  CHECK(is_same_jar(ours, "/data/app/~~x==/com.foo-y==/oat/arm64/base.odex"));
  CHECK(is_same_jar(ours, "/data/dalvik-cache/arm64/data@app@com.foo-1@base.apk@classes.dex"));
  CHECK_FALSE(is_same_jar(ours, "/data/app/~~x==/com.foo.bar-y==/oat/arm64/base.odex"));
  CHECK_FALSE(is_same_jar(ours, "/data/app/~~x==/com.foo-y==/oat/arm64/split_a.odex"));
  CHECK_FALSE(is_same_jar("/base.odex", "/base.odex"));
  CHECK(is_same_jar("/system/framework/oat/arm64/services.odex",
                    "/data/dalvik-cache/arm64/system@framework@services.jar@classes.odex"));
}

} // namespace uprobectl::uprobestats
