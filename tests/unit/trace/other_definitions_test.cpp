// SPDX-License-Identifier: Apache-2.0
#include "trace/other_definitions.hpp"

#include "elf_fixture.hpp"
#include "mapped_here.hpp"
#include "trace/diagnosis.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::trace {

using namespace uprobectl::test;

namespace {

Probe probe_of(const std::string& path, const std::string& function) {
  const auto target = resolve::Target::open(path);
  REQUIRE(target);
  const auto spec = resolve::parse_function(function);
  REQUIRE(spec);
  auto points = target->resolve(*spec);
  REQUIRE(points);
  Probes probes;
  return std::move(probes.add(std::move(points->front())));
}

} // namespace

TEST_CASE("a library of the process that defines the function, too, is a reason for no hit") {
  const std::string folder = temporary_folder();
  const MappedHere probed(folder + "/libmall.so", sample_elf());
  const MappedHere chosen(folder + "/libchosen.so", sample_elf());
  const pid_t self[] = {::getpid()};

  // `f` is exported, `old` is in .symtab only.
  Probe exported = probe_of(probed.path, "f");
  Probe local = probe_of(probed.path, "old@V1");
  Probe* const both[] = {&exported, &local};
  BinaryCache binaries({});
  find_other_definitions(both, self, binaries);
  CHECK(exported.facts.other_definition.ends_with(" maps another 'f', too: " + chosen.path));
  CHECK(local.facts.other_definition.empty());

  process::MappingSurvey survey;
  survey.executable = {::getpid()};
  CHECK(diagnose(survey, self, exported.facts).ends_with("; " + exported.facts.other_definition));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a breakpoint that is missing is the reason for no hit, not that nothing was called") {
  process::MappingSurvey survey;
  survey.executable = {::getpid()};
  CHECK(diagnose(survey, {}, {.without_breakpoint = "process 7 maps its code shared"}) ==
        "process 7 maps its code shared");
}

} // namespace uprobectl::trace
