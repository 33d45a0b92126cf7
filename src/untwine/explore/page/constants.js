"use strict";
// Numbers that the page shares with the Python side, which reads what is between the braces as JSON.

const CONSTANTS = {
  "frames": 11,
  "copyFrames": 21,
  "examples": 24,
  "copyStarts": 8,
  "copyDraws": 4,
  "pathSteps": 9,
  "copyPathExamples": 6,
  "groupRows": 6,
  "groupColumns": 8,
  "copyGroupSeeds": 3,
  "clusterImages": 8,
  "sheetColumns": 32,
  "dots": 5000,
  "copyDots": 1000,
  "decimals": 4,
  "maxCodeValue": 100
};
