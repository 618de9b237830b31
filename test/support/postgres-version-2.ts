/* What version 2 has made, which had a table for the items of each profile: items in two spaces, some of them deleted. */

export const databaseOfVersion2 = `
  create schema todo;
  create table todo.version (version integer primary key);
  create table todo.spaces (space text primary key, last_id bigint, last_place bigint);
  create table todo.items_a (
    space text,
    id bigint,
    name text,
    is_complete boolean not null,
    secret text,
    version bigint not null,
    primary key (space, id)
  );
  create table todo.items_b (
    space text,
    key bytea,
    place bigint not null,
    id text not null,
    name text not null,
    notes text not null,
    done boolean not null,
    primary key (space, key)
  );
  insert into todo.version values (2);
  insert into todo.spaces values ('', 9007199254740999, 7), ('ada', null, 2), ('bob', 3, null);
  insert into todo.items_a values ('', 9007199254740993, 'x', true, null, 102), ('', -1, null, false, 'hidden', 101);
  insert into todo.items_b values
    ('', sha256('z'), 7, 'z', 'n', 'o', false), ('', sha256('y'), 4, 'y', 'n', 'o', true),
    ('ada', sha256('y'), 2, 'y', 'ada', 'o', true);`
