// SPDX-License-Identifier: Apache-2.0
#include "util/habits.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

TEST_CASE("functions as other tools write them have the spelling of this one as a hint") {
  CHECK(function_habit("malloc%return") == "probe the return with: -r malloc");
  CHECK(function_habit("uretprobe:open") == "probe the return with: -r open");
  CHECK(function_habit("usdt:python:gc__start") ==
        "static probes are probed with: uprobectl usdt attach TARGET python:gc__start");
  CHECK(function_habit("*0x4050") == "write an address as vaddr:0x4050");
  CHECK(function_habit("malloc bytes size") ==
        "values are chosen with --args: --args 'bytes size' malloc");
}

TEST_CASE("names that C++ and Go may have are not taken for habits of other tools") {
  for (const char* name : {"malloc", "shop::add(unsigned int)", "operator new", "*0xyz", "%return",
                           "main.(*Shop).Add", "std::vector<int, a b>::push_back"})
    CHECK_FALSE(function_habit(name));
}

TEST_CASE("values, types and subcommands of other tools are translated") {
  CHECK(value_habit("str(arg0)") == "write a string as arg0:str");
  CHECK(value_habit("str(path, 16)") == "write a string as path:str");
  CHECK(value_habit("retval") == "the result is called ret");
  CHECK_FALSE(value_habit("str()"));
  CHECK_FALSE(value_habit("stride"));
  CHECK(type_habit("string") == "str");
  CHECK_FALSE(type_habit("str"));
  CHECK(subcommand_habit("trace") == "attach");
  CHECK_FALSE(subcommand_habit("attach"));
}
