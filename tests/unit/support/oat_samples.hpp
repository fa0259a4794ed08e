// SPDX-License-Identifier: Apache-2.0
// OAT files with known methods: those that the build makes of fixtures/art, and those of the
// corpus.
#pragma once

#include "uprobectl/art.hpp"

#include <string>
#include <vector>

namespace uprobectl::test {

struct OatSample {
  std::string oat;
  std::vector<std::string> dex; // the VDEX, jar or APK files beside it
  std::string list;             // what is where: a table, whose first line names the columns
};

// The folder of the former.
std::string made_folder();
// By name, without the one whose DEX files are nowhere and the one of an unknown version.
std::vector<OatSample> made_samples();
OatSample made_sample(const std::string& name);
// Empty, and says why, where there is no corpus.
std::vector<OatSample> corpus_samples();

art::OatFile read_oat(elf::Image& image);

std::string read_whole(const std::string& path);
// The cells of each line but the first.
std::vector<std::vector<std::string>> read_table(const std::string& path);

} // namespace uprobectl::test
